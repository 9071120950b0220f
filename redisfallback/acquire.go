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
func (b *Backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if r.Token.String() == sharedValue {
		return nil, fmt.Errorf("%w: the token %q marks shared locks", driver.ErrUnsupported, sharedValue)
	}
	for {
		g, err := b.acquire(ctx, r)
		if !errors.Is(err, errLostEarly) {
			if err != nil {
				return nil, err
			}
			return g, nil
		}
	}
}

// errLostEarly says that a key was lost while the grant was waiting for another one.
var errLostEarly = errors.New("one of the keys was lost before all were held")

func (b *Backend) acquire(ctx context.Context, r driver.Request) (g *grant, err error) {
	g = b.newGrant(r)
	all := b.holdingsOf(r.Keys)
	if len(all) == 1 {
		g.tell(r.Owner.Lost)
		if err := b.take(ctx, g, all[0], r.Wait); err != nil {
			return nil, err
		}
		b.keeper.add(g)
		return g, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g.tell(func(driver.Reason, error) { cancel(errLostEarly) })
	if !b.nodes[0].cluster {
		switch err := b.takeAll(ctx, g, all); {
		case err == nil:
			return b.handOver(g, r)
		case !r.Wait:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
	}
	for i, h := range all {
		if err := b.take(ctx, g, h, r.Wait); err != nil {
			b.abandon(g)
			return nil, err
		}
		if i == 0 {
			b.keeper.add(g)
		}
	}
	return b.handOver(g, r)
}

func (b *Backend) holdingsOf(keys []driver.Key) []*holding {
	all := make([]*holding, len(keys))
	for i, key := range keys {
		n := namesOf(b.prefix, key)
		all[i] = &holding{names: n, locks: []string{n.lock}}
	}
	return all
}

// handOver puts g into the hands of the front end, which hears of its loss from now on, unless it has been lost already.
func (b *Backend) handOver(g *grant, r driver.Request) (*grant, error) {
	g.tell(r.Owner.Lost)
	if !b.keeper.has(g) {
		return nil, errLostEarly
	}
	return g, nil
}

// takeAll takes all keys in one step, or none.
func (b *Backend) takeAll(ctx context.Context, g *grant, all []*holding) error {
	var keys, locks []string
	for _, h := range all {
		keys, locks = append(keys, h.keys(takeAll.keys)...), append(locks, h.lock)
	}
	calls := concerning(locks, b.calls(takeAll, keys, g.token, b.leaseMillis, g.waiter, g.shared))
	sent := driver.Now()
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.verdict(driver.ErrNotAcquired)
	}
	until := sent.Add(b.trusted())
	if err == nil && driver.Now() >= until {
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, errShort)
	}
	for _, h := range all {
		h.asked = calls
		g.add(h, sent, until)
	}
	if err == nil {
		b.keeper.add(g)
		return nil
	}
	if b.redlock() || !errors.Is(err, driver.ErrNotAcquired) {
		b.untake(ctx, g)
	}
	g.clear()
	return err
}

// untake takes back what a failed takeAll may have left on the nodes.
func (b *Backend) untake(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	_ = b.each(ctx, g, func(g *grant, h *holding) []*call { // what is left if this fails ends with its lease
		drop(h.asked)
		return b.releaseCalls(g, h)
	})
}

// abandon gives back the keys that g has, because it cannot get the next one.
func (b *Backend) abandon(g *grant) {
	if b.keeper.remove(g) {
		ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
		defer cancel()
		_ = b.release(ctx, g) // the caller hears why it did not get the lock; what stays behind ends with the lease
	}
}

// settleWithin is how long a failed acquisition waits for the server to confirm that nothing is left of it.
const settleWithin = time.Second

// take gets one key.
func (b *Backend) take(ctx context.Context, g *grant, h *holding, wait bool) error {
	if wait {
		return b.wait(ctx, g, h)
	}
	a := b.attempt(ctx, g, h, b.firstCalls(g, h), false)
	if a.unavailable() && ctx.Err() == nil {
		// A connection may have been dead for long. What became of the first attempt is not known: so this one is that
		// of somebody who asks again.
		a = b.attempt(ctx, g, h, b.askCalls(g, h, noLine, true), false)
	}
	return a.err
}

// attempt is what came of asking for a key once.
type attempt struct {
	err   error
	split bool          // some nodes were won, though too few
	busy  time.Duration // how long the holder's lease still lasts; 0 when that is not known
}

func (a attempt) refused() bool { return errors.Is(a.err, driver.ErrNotAcquired) }

func (a attempt) unavailable() bool { return errors.Is(a.err, driver.ErrUnavailable) }

// attempt asks once; goOn says whether it will be asked again after a refusal. If it fails nothing is left of it, but a
// place in the line where there is one node.
func (b *Backend) attempt(ctx context.Context, g *grant, h *holding, calls []*call, goOn bool) attempt {
	h.asked = calls
	sent := driver.Now()
	t, err := b.round(ctx, calls)
	if err == nil {
		err = t.verdict(driver.ErrNotAcquired)
	}
	if until := sent.Add(b.trusted()); err == nil {
		if driver.Now() < until {
			g.add(h, sent, until)
			return attempt{}
		}
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, errShort)
	}
	a := attempt{err: err, split: t.yes > 0}
	if a.refused() && !b.redlock() {
		a.busy = calls[0].busy()
		return a
	}
	offer := b.offerMillis
	if b.redlock() && a.refused() && goOn {
		offer = keepMum
	}
	b.withdraw(ctx, g, h, offer, t)
	return a
}

// withdraw takes back what an attempt may have left on the nodes, and waits for a quorum of those that did not fail in it:
// the rest is in nobody's way, and follows when it can.
func (b *Backend) withdraw(ctx context.Context, g *grant, h *holding, offer int64, before *tally) {
	drop(h.asked)
	calls := b.withdrawCalls(g, h, offer)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	wanted := min(b.quorum, len(b.nodes)-before.failed)
	// If they do not answer, what is left ends with its lease. The caller hears why it did not get the lock.
	_, _ = b.roundUntil(ctx, calls, func(t *tally) bool { return t.yes+t.no >= wanted || t.over() })
}

// firstCalls takes a key that is expected to be free.
func (b *Backend) firstCalls(g *grant, h *holding) []*call {
	if g.shared {
		return b.askCalls(g, h, noLine, false)
	}
	calls := concerning(h.locks, b.calls(nil, nil))
	for _, c := range calls {
		c.takes = b.takeOf(g, h)
	}
	return calls
}

func (b *Backend) takeOf(g *grant, h *holding) *take {
	return &take{lock: h.lock, token: g.token, lease: b.leaseMillis}
}

// How long a line lasts without being renewed, in milliseconds.
const (
	noLine  = 0
	lineFor = 60_000
)

// askCalls takes a key, or stands in line for it.
func (b *Backend) askCalls(g *grant, h *holding, line int, again bool) []*call {
	if g.shared {
		return b.callsAbout(g, h, askExclusive, askShared, b.leaseMillis, g.waiter, line)
	}
	calls := b.callsAbout(g, h, askExclusive, askShared, g.token, b.leaseMillis, g.waiter, line, again)
	for _, c := range calls {
		c.bare = func() request { return request{takes: b.takeOf(g, h)} }
	}
	return calls
}

// wait stands in line until it has the key, or ctx ends.
func (b *Backend) wait(ctx context.Context, g *grant, h *holding) error {
	w := b.room.enter(g, h)
	defer b.room.leave(w)
	failed := false
	g.polled = b.redlock()
	for round := 0; ; round++ {
		a := b.attempt(ctx, g, h, b.askCalls(g, h, lineFor, round > 0), true)
		switch {
		case a.err == nil:
			return nil
		case a.unavailable() && !failed && ctx.Err() == nil: // a connection may have broken
			failed = true
			continue
		case !a.refused():
			return a.err
		}
		failed = false
		if !b.rest(ctx, w, a, round) {
			b.withdraw(ctx, g, h, b.offerMillis, b.newTally())
			return context.Cause(ctx)
		}
	}
}

// rest waits until it is time to ask again, and reports false when ctx ended first.
func (b *Backend) rest(ctx context.Context, w *waiter, a attempt, round int) bool {
	var again <-chan time.Time
	if a.split { // those who split the votes try again, each at another time
		limit := min(500*time.Millisecond, 10*time.Millisecond<<min(round, 6))
		timer := time.NewTimer(rand.N(limit))
		defer timer.Stop()
		again = timer.C
	}
	b.room.schedule(w, a.busy)
	select {
	case <-w.wake:
	case <-again:
	case <-ctx.Done():
		return false
	}
	return true
}
