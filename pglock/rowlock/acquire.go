package rowlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Acquire implements [driver.Backend].
func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	b.Record(r.Key)
	w := &want{grant: newGrant(r), wait: r.Wait}
	acquire := b.try
	if r.Wait {
		b.refused.Store(nil) // a process that waits does not poll, so its next lock is not delayed
		acquire = b.wait
	}
	if err := acquire(ctx, w); err != nil {
		return nil, b.leave(w, err)
	}
	return w.grant, nil
}

// try asks without waiting. A row that another transaction has locked for a moment is asked for again, a few times;
// under a guarded transaction it stays locked. A key that was refused is not asked for again within tryPause: processes
// that poll would take the server's time from the holder, and so have to poll for longer.
func (b *backend) try(ctx context.Context, w *want) error {
	if last := b.refused.Load(); last != nil && last.key == w.grant.key && !timing.Sleep(ctx, last.at.Add(tryPause).Sub(driver.Now())) {
		return context.Cause(ctx)
	}
	for i := 0; ; i++ {
		outcome, err := b.ask(ctx, w)
		if err != nil || outcome == granted {
			return err
		}
		if outcome != busy || i == busyTries {
			b.refused.Store(&refusal{w.grant.key, driver.Now()})
			if outcome == queued {
				return hooks.ErrQueued
			}
			return driver.ErrNotAcquired
		}
		if !timing.Sleep(ctx, timing.Jittered(busyPause<<i)) {
			return context.Cause(ctx)
		}
	}
}

// refusal is the last try that failed.
type refusal struct {
	key driver.KeyID
	at  driver.Instant
}

// wait asks until it is granted w, or ctx ends.
func (b *backend) wait(ctx context.Context, w *want) error {
	for {
		if outcome, err := b.ask(ctx, w); err != nil || outcome == granted {
			return err
		}
		if err := b.rest(ctx, w); err != nil {
			return err
		}
	}
}

// ask asks for w once. After an error nothing is held, or the error is an [*driver.UnsettledError].
func (b *backend) ask(ctx context.Context, w *want) (outcome byte, err error) {
	select {
	case <-b.draining:
		return 0, driver.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	c := b.submit(&call{want: w})
	if err := b.await(ctx, c); err != nil {
		return 0, b.abandon(c, err)
	}
	return c.outcome, c.err
}

// abandon returns the error of a call whose answer is not waited for any more, because of err.
func (b *backend) abandon(c *call, err error) error {
	select {
	case <-c.done: // it was withdrawn
		return err
	default:
	}
	done := b.later(func() {
		<-c.done
		if open, ok := errors.AsType[*driver.UnsettledError](c.err); ok {
			<-open.Done
		}
	})
	return &driver.UnsettledError{Err: fmt.Errorf("%w: the server has not answered: %w", driver.ErrUnavailable, err), Done: done}
}

// leave gives back what w has got, leaves the queue, and returns why, and [driver.ErrUnavailable] too if the server has
// not confirmed it. It goes on in the background then: others would wait behind the place of a live process. What a
// call that is under way gets is given back when it has been answered.
func (b *backend) leave(w *want, why error) error {
	open, unsettled := errors.AsType[*driver.UnsettledError](why)
	if !unsettled && w.arrival == 0 {
		return why
	}
	left := b.later(func() {
		if unsettled {
			<-open.Done
		}
		if w.holder != nil {
			b.dropUntilGone(w.holder, w.holder.forget(w))
		}
	})
	if unsettled {
		return &driver.UnsettledError{Err: open.Err, Done: left}
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case <-left:
		return why
	case <-timer.C:
		return fmt.Errorf("%w, and the end of the wait was not confirmed: %w", why, driver.ErrUnavailable)
	}
}

// A row that is locked is asked for again after about busyPause, then after twice that, and so on, busyTries times.
const (
	busyPause = 2 * time.Millisecond
	busyTries = 4
	tryPause  = 20 * time.Millisecond // measured: with 3 ms ten processes that poll took the server's time from the holder
)
