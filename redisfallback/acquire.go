package redisfallback

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
	for again := false; ; again = true {
		g, err := b.acquire(ctx, r, again)
		if !errors.Is(err, errLostEarly) {
			if err != nil {
				return nil, err
			}
			return g, nil
		}
	}
}

// errLostEarly means that a key was lost while the grant was waiting for another one.
var errLostEarly = errors.New("one of the keys was lost before all were held")

func (b *backend) acquire(ctx context.Context, r driver.Request, again bool) (g *grant, err error) {
	if r.Wait {
		b.waiters.shards.probe(ctx)
	}
	g = b.newGrant(r)
	if err := g.check(); err != nil {
		return nil, err
	}
	if again {
		b.attemptAnew(g.keys)
	}
	if err := b.checkServers(ctx); err != nil {
		return nil, err
	}
	if len(g.keys) == 1 {
		g.setListener(r.LossHandler.Lost)
		if err := b.take(ctx, g, 0, r.Wait); err != nil {
			return nil, err
		}
		if err := b.keep(g); err != nil {
			return nil, err
		}
		return g, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g.setListener(func(driver.LostReason, error) { cancel(errLostEarly) })
	if !b.nodes[0].single.Load() {
		switch err := b.takeAll(ctx, g); {
		case err == nil:
			return b.handOver(g, r)
		case isCrossSlot(err):
			b.nodes[0].single.Store(true)
		case !r.Wait, errors.Is(err, driver.ErrClosed):
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
	}
	for i := range g.keys {
		if err := b.take(ctx, g, i, r.Wait); err != nil {
			b.giveBack(g)
			return nil, err
		}
		if i > 0 {
			continue
		}
		if err := b.keep(g); err != nil {
			return nil, err
		}
	}
	return b.handOver(g, r)
}

// keep gives g to the renewer. If the Locker has been closed meanwhile, it releases g.
func (b *backend) keep(g *grant) error {
	if b.renewer.add(g) {
		return nil
	}
	_ = b.release(g, settleWithin) // if that fails, the lock ends with its lease
	return driver.ErrClosed
}

// handOver gives g to the front end, which is notified of a loss from now on. It fails if g has been lost already.
func (b *backend) handOver(g *grant, r driver.Request) (*grant, error) {
	g.setListener(r.LossHandler.Lost)
	if !b.renewer.has(g) {
		return nil, errLostEarly
	}
	return g, nil
}

// takeAll takes all keys in one step, or none.
func (b *backend) takeAll(ctx context.Context, g *grant) error {
	var keys []string
	for i := range g.keys {
		keys = append(keys, g.keys[i].keys(takeAll.keys)...)
	}
	calls := concerning(g.keys, b.calls(takeAll, keys, g.value(0), b.leaseMillis, g.waiter(0), g.shared))
	sent := driver.Now()
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.result(driver.ErrNotAcquired)
	}
	until := sent.Add(b.trusted())
	if err == nil && driver.Now() >= until {
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, errTooLate)
	}
	for i := range g.keys {
		g.keys[i].asked = calls
		g.add(sent, until)
	}
	if err == nil {
		return b.keep(g)
	}
	if b.redlock() || !errors.Is(err, driver.ErrNotAcquired) {
		b.undoTakeAll(ctx, g)
	}
	g.clear()
	return err
}

// undoTakeAll releases what a failed takeAll may have left on the nodes.
func (b *backend) undoTakeAll(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	_ = b.each(ctx, g, func(g *grant, i int) []call { // if this fails, keys that are left end with their leases
		drop(g.keys[i].asked)
		return b.releaseCalls(g, i, b.offerMillis)
	})
	b.attemptAnew(g.keys)
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
	a := b.attempt(ctx, g, i, b.firstCalls(g, i), false)
	if a.unavailable() && ctx.Err() == nil {
		// The connection may have been dead for a while. The first attempt may have succeeded, so this one is marked as
		// a repetition.
		a = b.attempt(ctx, g, i, b.askCalls(g, i, noLine, true), false)
	}
	return a.err
}

// attempt is the outcome of asking for a key once.
type attempt struct {
	err   error
	split bool // some nodes granted it, but too few
	refusal
}

func (a attempt) refused() bool { return errors.Is(a.err, driver.ErrNotAcquired) }

func (a attempt) unavailable() bool { return errors.Is(a.err, driver.ErrUnavailable) }

// attempt asks once; goOn reports whether the caller asks again after a refusal. A failed attempt leaves nothing
// behind, except a place in the line if there is only one node.
func (b *backend) attempt(ctx context.Context, g *grant, i int, calls []call, goOn bool) attempt {
	g.keys[i].asked = calls
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
	if a.refused() && !b.redlock() {
		a.refusal = calls[0].refusal()
		return a
	}
	for i, vote := range t.votes {
		if vote.heard && vote.err == nil {
			a.often = a.often || calls[i].refusal().often
		}
	}
	if b.redlock() && a.refused() && goOn { // it stays in the lines and is woken
		a.split = b.undo(ctx, g, i, b.releaseCalls(g, i, releaseSilent), t) || a.split // it may have got the lock on a node since
	} else {
		b.undo(ctx, g, i, b.withdrawCalls(g, i), t)
	}
	b.attemptAnew(g.keys[i : i+1])
	return a
}

// undo releases what an attempt may have left on the nodes, and waits for a quorum of those that did not fail in it.
// The other nodes alone cannot block any caller; they follow when they answer. It reports whether anything was
// released.
func (b *backend) undo(ctx context.Context, g *grant, i int, calls []call, before *tally) bool {
	drop(g.keys[i].asked)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	wanted := min(b.quorum, len(b.nodes)-before.failed)
	// If they do not answer, keys that are left end with their lease. The caller gets the error of the attempt.
	after, _ := b.roundUntil(ctx, calls, func(t *tally) bool { return t.yes+t.no >= wanted || t.over() })
	return after.yes > 0
}

// firstCalls returns the calls that take a key which is expected to be free.
func (b *backend) firstCalls(g *grant, i int) []call {
	if g.shared || g.chosen {
		return b.askCalls(g, i, noLine, false)
	}
	return concerning(g.keys[i:i+1], b.ask(b.taking(g, i), nil))
}

func (b *backend) taking(g *grant, i int) request {
	return request{takes: &g.keys[i].names, token: g.value(i), millis: b.leaseMillis}
}

// How long a line lasts without being renewed, in milliseconds.
const (
	noLine  = 0
	lineFor = 120_000
)

// askCalls returns the calls that take a key or enter its line.
func (b *backend) askCalls(g *grant, i int, line int, again bool) []call {
	if g.shared {
		return b.callsAbout(g, i, askShared, b.leaseMillis, g.waiter(i), line)
	}
	calls := b.callsAbout(g, i, askExclusive, g.value(i), b.leaseMillis, g.waiter(i), line, again)
	return withSingleKey(calls, func(request) request { return b.taking(g, i) })
}

// wait waits in line until it has the key or ctx ends.
func (b *backend) wait(ctx context.Context, g *grant, i int) error {
	w := b.waiters.enter(g, i)
	defer b.waiters.leave(w)
	failed, asked, splits := false, false, 0
	g.polled = b.redlock()
	for ; ; asked = true {
		a := b.attempt(ctx, g, i, b.askCalls(g, i, lineFor, asked), true)
		switch {
		case a.err == nil:
			return nil
		case a.unavailable() && !failed && ctx.Err() == nil: // the connection may have broken
			failed = true
			continue
		case !a.refused():
			return a.err
		}
		failed = false
		if splits++; !a.split {
			splits = 0 // a long wait must not make the next pauses long
		}
		if !b.pause(ctx, w, a, splits) {
			b.undo(ctx, g, i, b.withdrawCalls(g, i), b.newTally())
			return context.Cause(ctx)
		}
	}
}

// pause waits until it is time to ask again. It returns false if ctx ended first. splits is how many times in a row the
// votes were split.
func (b *backend) pause(ctx context.Context, w *waiter, a attempt, splits int) bool {
	var again <-chan time.Time
	if splits > 0 { // retry at a random time, unlike the others
		limit := min(500*time.Millisecond, 5*time.Millisecond<<min(splits, 7))
		timer := time.NewTimer(rand.N(limit))
		defer timer.Stop()
		again = timer.C
	}
	b.waiters.schedule(w, a.refusal)
	select {
	case <-w.wake:
	case <-again:
	case <-ctx.Done():
		return false
	}
	return true
}
