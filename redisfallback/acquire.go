package redisfallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Acquire implements [driver.Backend].
func (b *backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	for again := false; ; again = true {
		g := b.newGrant(r)
		if again {
			b.attemptAnew(g.keys) // what gave the last one back may arrive late
		}
		err := g.check()
		if err == nil {
			err = b.acquire(ctx, g, r)
		}
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, errLostEarly) {
			return nil, err
		}
	}
}

// errLostEarly means that a key was lost while the grant was waiting for another one.
var errLostEarly = errors.New("one of the keys was lost before all were held")

// acquire takes the keys one after the other, in their order. What it has is renewed while it waits for the next one.
func (b *backend) acquire(ctx context.Context, g *grant, r driver.Request) error {
	g.setListener(r.LossHandler.Lost)
	if len(g.keys) > 1 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		g.setListener(func(driver.LostReason, error) { cancel(errLostEarly) })
	}
	for i := range g.keys {
		if err := b.take(ctx, g, i, r.Wait); err != nil {
			b.giveBack(g)
			return err
		}
		if i == 0 && !b.renewer.add(g) { // the Locker has been closed meanwhile
			_ = b.release(g, settleWithin) // if that fails, the lock ends with its lease
			return driver.ErrClosed
		}
	}
	if len(g.keys) > 1 {
		g.setListener(r.LossHandler.Lost)
		if !b.renewer.has(g) {
			return errLostEarly
		}
	}
	return nil
}

// giveBack releases the keys that g has, because it cannot get the next one.
func (b *backend) giveBack(g *grant) {
	if b.renewer.remove(g) {
		_ = b.release(g, settleWithin) // the caller gets the first error; a key that is left ends with its lease
	}
}

// settleWithin is how long a failed acquisition waits for the server to confirm that nothing is left of it.
const settleWithin = time.Second

// take acquires the grant's key i.
func (b *backend) take(ctx context.Context, g *grant, i int, wait bool) error {
	if wait {
		return b.wait(ctx, g, i)
	}
	a := b.attempt(ctx, g, i, b.takeCalls(g, i, noLine, false), false)
	if a.repeatable() && ctx.Err() == nil {
		// The connection may have been dead for a while. The first attempt may have succeeded, so this one is marked as
		// a repetition.
		a = b.attempt(ctx, g, i, b.takeCalls(g, i, noLine, true), false)
	}
	return a.err
}

// attempt is the outcome of asking for a key once.
type attempt struct {
	err   error
	split bool // some nodes granted it, but too few
	late  bool // what undoes it may arrive later, and would undo the next attempt too
	refusal
}

func (a attempt) refused() bool { return errors.Is(a.err, driver.ErrNotAcquired) }

// repeatable reports whether asking once more, on another connection, makes sense and does no harm.
func (a attempt) repeatable() bool { return errors.Is(a.err, driver.ErrUnavailable) && !a.late }

// attempt asks once; goOn reports whether the caller asks again after a refusal. A failed attempt leaves nothing
// behind, except a place in the line if there is only one node.
func (b *backend) attempt(ctx context.Context, g *grant, i int, calls []call, goOn bool) attempt {
	sent := driver.Now()
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.result(driver.ErrNotAcquired)
	}
	if until := sent.Add(b.trusted()); err == nil {
		if driver.Now() < until {
			g.add(sent, until)
			return attempt{}
		}
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, errTooLate)
	}
	a := attempt{err: err, split: t.yes > 0}
	if a.refused() {
		a.refusal = t.refusal(calls)
		if !b.redlock() {
			return a
		}
	}
	if a.refused() && goOn { // it stays in the lines and is woken, but may have got the lock on a node since
		released, _ := b.undo(ctx, b.releaseCalls(g, i, releaseSilent, false), t)
		a.split = released || a.split
	} else {
		_, answered := b.undo(ctx, b.releaseCalls(g, i, b.offerMillis, true), t)
		a.late = !answered && !b.redlock()
	}
	if b.redlock() {
		b.attemptAnew(g.keys[i : i+1])
	}
	return a
}

// refusal returns what the node said that may be free first.
func (t *tally) refusal(calls []call) (first refusal) {
	heard := false
	for i := range calls {
		if !t.votes[i].heard || t.votes[i].err != nil {
			continue // it may be answering just now
		}
		if r, ok := calls[i].refusal(); ok && (!heard || r.busy < first.busy) {
			first, heard = r, true
		}
	}
	return first
}

// undo releases what an attempt may have left on the nodes. Of several, it waits for a quorum of those that did not fail in
// the attempt: the others alone cannot block any caller, follow when they answer, and know the next attempt by its number. It
// reports whether anything was released, and whether those answered.
func (b *backend) undo(ctx context.Context, calls []call, before *tally) (released, answered bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	wanted := 1
	if b.redlock() {
		wanted = min(b.quorum, len(b.nodes)-before.failed)
	}
	// If they do not answer, keys that are left end with their lease. The caller gets the error of the attempt.
	after, _ := b.roundUntil(ctx, calls, func(t *tally) bool { return t.yes+t.no >= wanted || t.over() })
	return after.yes > 0, after.yes+after.no >= wanted
}
