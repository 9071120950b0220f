package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// term is the time in which a process leads.
type term struct {
	lock     *pglock.Lock
	ctx      context.Context // lead's
	withdraw context.CancelCauseFunc
	since    driver.Instant
	done     chan struct{} // closed when lead has returned and the lock has been unlocked

	mu    sync.Mutex
	ended driver.Instant // when the end of ctx was noticed; 0 if not yet
}

// termKey is the key of the term in lead's context.
type termKey struct{}

// begin starts a term with a lock that was granted.
//
// Resign can race with the grant. Until e.term is set, Resign finds no term. From then on it ends the term; if lead has
// not been called yet, it is called with a context that has already ended.
func (e *Elector) begin(ctx context.Context, lock *pglock.Lock) *term {
	ctx, withdraw := context.WithCancelCause(ctx)
	t := &term{lock: lock, withdraw: withdraw, since: driver.Now(), done: make(chan struct{})}
	t.ctx = lock.Context(context.WithValue(ctx, termKey{}, t))
	context.AfterFunc(t.ctx, func() { t.endedAt() })
	e.mu.Lock()
	e.term = t
	e.mu.Unlock()
	return t
}

// endedAt returns when the end of the term's context was first noticed. If it was not noticed before, that is now.
func (t *term) endedAt() driver.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == 0 {
		t.ended = driver.Now()
	}
	return t.ended
}

// serve calls lead and then releases the lock, even if lead panics or calls runtime.Goexit.
func (e *Elector) serve(t *term, lead func(context.Context, *pglock.Lock) error) (err error) {
	defer func() {
		why := context.Cause(t.ctx) // before Unlock, which ends the context too
		if unlockErr := t.lock.Unlock(context.WithoutCancel(t.ctx)); unlockErr != nil && !errors.Is(unlockErr, pglock.ErrUnlocked) {
			err = joinOnce(err, unlockErr)
		}
		if why != nil && !errors.Is(why, pglock.ErrUnlocked) {
			err = joinOnce(err, why)
		}
		e.mu.Lock()
		e.term = nil
		e.mu.Unlock()
		close(t.done)
		e.report(EventEnded, err)
	}()
	e.report(EventElected, nil)
	return lead(t.ctx, t.lock)
}

// joinOnce adds an error unless it is already included.
func joinOnce(err, more error) error {
	if err != nil && errors.Is(err, more) {
		return err
	}
	lost, is := errors.AsType[*pglock.LostError](more)
	if known, also := errors.AsType[*pglock.LostError](err); is && also && known.Reason == lost.Reason {
		return err
	}
	if err == nil {
		return more
	}
	return fmt.Errorf("%w; %w", err, more)
}
