package rowlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Acquire implements [driver.Backend].
func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	b.Record(r.Keys)
	w := &want{grant: newGrant(r), wait: r.Wait}
	if r.Wait {
		return b.wait(ctx, w)
	}
	return b.try(ctx, w)
}

// try asks without waiting. A row that another transaction has locked for a moment is asked for again, a few times; under a
// guarded transaction it stays locked.
func (b *backend) try(ctx context.Context, w *want) (driver.Grant, error) {
	for i := 0; ; i++ {
		switch outcome, err := b.ask(ctx, w); {
		case err != nil:
			return nil, err
		case outcome == granted:
			return w.grant, nil
		case outcome != busy || i == busyTries:
			return nil, driver.ErrNotAcquired
		}
		if !b.pause(ctx, jittered(busyPause<<i)) {
			return nil, context.Cause(ctx)
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

// abandon gives back what the answer to c grants, when it comes.
func (b *backend) abandon(c *call, err error) error {
	select {
	case <-c.done: // it was withdrawn
		return err
	default:
	}
	done := make(chan struct{})
	undo := func() {
		defer close(done)
		<-c.done
		if open, ok := errors.AsType[*driver.UnsettledError](c.err); ok {
			<-open.Done
		}
		if c.err != nil {
			return
		}
		if c.outcome == granted {
			if c.want.grant.holder.remove(c.want.grant) {
				b.dropUntilGone(c.want.grant.holder, c.want.grant.drops())
			}
		} else if c.want.arrival != 0 {
			c.want.holder.unqueue(c.want.arrival)
			b.dropUntilGone(c.want.holder, c.want.queued())
		}
	}
	if !b.background.start(undo) {
		close(done)
	}
	return &driver.UnsettledError{Err: fmt.Errorf("%w: the server has not answered: %w", driver.ErrUnavailable, err), Done: done}
}

// queued is what is to be dropped to leave the queue.
func (w *want) queued() []drop { return dropAll("w", w.grant.keys, w.arrival) }

// wait waits in the queue of the server until it is granted w, or ctx ends.
func (b *backend) wait(ctx context.Context, w *want) (driver.Grant, error) {
	for i := 0; ; i++ {
		outcome, err := b.ask(ctx, w)
		switch {
		case err != nil:
			return nil, b.leave(w, err)
		case outcome == granted:
			w.holder.unqueue(w.arrival)
			return w.grant, nil
		case outcome == busy && i < busyTries:
			if !b.pause(ctx, jittered(busyPause<<i)) {
				return nil, b.leave(w, context.Cause(ctx))
			}
			continue
		}
		if err := b.waiters.wait(ctx, w); err != nil {
			return nil, b.leave(w, err)
		}
	}
}

// leave leaves the queue, and returns why, and [driver.ErrUnavailable] too if the server has not confirmed it. It goes
// on in the background then: others would wait behind the place of a live process.
func (b *backend) leave(w *want, why error) error {
	if errors.As(why, new(*driver.UnsettledError)) { // w belongs to what is under way, which leaves the queue when it is settled
		return why
	}
	if w.arrival == 0 || w.holder.isOver() {
		return why
	}
	left := make(chan struct{})
	h, drops := w.holder, w.queued()
	h.unqueue(w.arrival)
	if !b.background.start(func() { defer close(left); b.dropUntilGone(h, drops) }) {
		return why
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

// pause returns false if ctx has ended before d has passed.
func (b *backend) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jittered returns a random duration between 0.5 d and 1.5 d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// A row that is locked is asked for again after about busyPause, then after twice that, and so on, busyTries times.
const (
	busyPause = 2 * time.Millisecond
	busyTries = 4
)
