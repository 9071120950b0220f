package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Fence returns a fencing token: a number that is strictly larger than that of every earlier holder of the key. Send it
// with each request to the resource that the lock protects, which refuses numbers smaller than the largest that it has
// seen. Every call on one Lock returns the same number.
//
// On PostgreSQL it needs the schema pglock ([ErrSchemaMissing]), and it is not monotonic across a failover that loses
// the last transactions of the old primary. Shared holders get different numbers, whose order has no meaning. If the
// lock ends before the first call returns, the error matches [ErrLost] or [ErrUnlocked]. Backends without fencing
// return [ErrUnsupported]. When ctx ends before the server has answered, the error matches the context's. While another
// session alters or drops the sequence, Fence waits, and other locks do not.
func (l *Lock) Fence(ctx context.Context) (int64, error) {
	const attempt = "fence"
	unlock, err := l.lockMutex(ctx, func(x *lazyState) *ctxMutex { return &x.fencing })
	if err != nil {
		return 0, l.failed(attempt, err)
	}
	defer unlock()
	x := l.lazy
	if x.fence != 0 {
		return x.fence, nil
	}
	if err := l.Err(); err != nil {
		return 0, l.says(attempt, err)
	}
	fencer, ok := l.hold.locker.backend.(driver.Fencer)
	if !ok {
		return 0, l.failed(attempt, fmt.Errorf("%w by this backend", ErrUnsupported))
	}
	number, err := fencer.Fence(ctx, l.hold.grant)
	if err != nil {
		return 0, l.failed(attempt, err)
	}
	if err := l.Err(); err != nil { // the next holder may have drawn a smaller number
		return 0, l.says(attempt, err)
	}
	x.fence = number
	return number, nil
}

// ctxMutex is a mutex that callers wait for no longer than their contexts last. It is made when it is first needed.
type ctxMutex chan struct{}

// lockMutex locks one of the mutexes of the Lock, and returns the function that unlocks it.
func (l *Lock) lockMutex(ctx context.Context, of func(*lazyState) *ctxMutex) (unlock func(), err error) {
	l.mu.Lock()
	t := of(l.lazyLocked())
	if *t == nil {
		*t = make(ctxMutex, 1)
	}
	taken := *t
	l.mu.Unlock()
	select {
	case taken <- struct{}{}:
		return func() { <-taken }, nil
	default:
	}
	select {
	case taken <- struct{}{}:
		return func() { <-taken }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another call for this lock has not been answered: %w", context.Cause(ctx))
	}
}
