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
	g := b.newGrant(r)
	err := g.check()
	if err == nil {
		err = b.take(ctx, g, r.Wait)
	}
	if err != nil {
		return nil, err
	}
	if !b.renewer.add(g) { // the Locker has been closed meanwhile
		_ = b.release(g, settleWithin) // if that fails, the lock ends with its lease
		return nil, driver.ErrClosed
	}
	return g, nil
}

// settleWithin is how long a failed acquisition waits for the server to confirm that nothing is left of it.
const settleWithin = time.Second

// take acquires the grant's key.
func (b *backend) take(ctx context.Context, g *grant, wait bool) error {
	if wait {
		return b.wait(ctx, g)
	}
	a := b.attempt(ctx, g, b.takeCalls(g, noLine, false), false)
	if a.repeatable() && ctx.Err() == nil {
		// The connection may have been dead for a while. The first attempt may have succeeded, so this one is marked as
		// a repetition.
		a = b.attempt(ctx, g, b.takeCalls(g, noLine, true), false)
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
func (b *backend) attempt(ctx context.Context, g *grant, calls []call, goOn bool) attempt {
	sent := driver.Now()
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.result(driver.ErrNotAcquired)
	}
	if until := sent.Add(b.trusted()); err == nil {
		if driver.Now() < until {
			g.extend(sent, until)
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
		released, _ := b.undo(ctx, b.releaseCalls(g, releaseSilent, false), t)
		a.split = released || a.split
	} else {
		_, answered := b.undo(ctx, b.releaseCalls(g, b.offerMillis, true), t)
		a.late = !answered && !b.redlock()
	}
	if b.redlock() {
		g.attempt = b.serial.Add(1) // a release that undoes this attempt may reach a node late, when the next one has succeeded there
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
