package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// heldLock is a lock, or a permit of a semaphore, under which a command runs.
type heldLock interface {
	Done() <-chan struct{}
	Err() error
	Context(parent context.Context) context.Context
	Verify(ctx context.Context) error
	Fence(ctx context.Context) (int64, error)
	Unlock(ctx context.Context) error
}

// permit makes a permit a heldLock.
type permit struct{ *semaphore.Permit }

func (p permit) Done() <-chan struct{} { return p.Context(context.Background()).Done() }

// Fence returns no fencing token: several holders work at the same time, and a later one does not replace an earlier one.
func (permit) Fence(context.Context) (int64, error) { return 0, pglock.ErrUnsupported }

func (p permit) Unlock(ctx context.Context) error { return p.Release(ctx) }

// acquirePermit tries for a permit first, so that it can say that it waits.
func (u *lockedRun) acquirePermit(ctx context.Context) (heldLock, error) {
	sem, err := semaphore.New(u.locker, u.key, u.permits)
	if err != nil {
		return nil, err
	}
	p, err := sem.TryAcquire(ctx)
	if err == nil {
		return permit{p}, nil
	}
	if !errors.Is(err, pglock.ErrNotAcquired) || u.nonblock || (u.bounded && u.wait == 0) {
		return nil, err
	}
	if u.verbose || term.Is(os.Stderr) {
		say(os.Stderr, "%v; waiting", u.failed(err))
	}
	var options []pglock.LockOption
	if u.bounded {
		options = append(options, pglock.MaxWait(time.Duration(u.wait)))
	}
	if p, err = sem.Acquire(ctx, options...); err != nil {
		return nil, err
	}
	return permit{p}, nil
}
