package redisfallback

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
)

// A waiter stands in the lock's line on the server, and asks again when a message says so; see wakeups.go. It also asks
// when the holder's lease is over, in case the holder has died, and, since a message or an offer may be lost, once in a
// while: the first in line every two seconds, the others less often.
const (
	askEvery  = 2 * time.Second
	maxRest   = lineFor / 3 * time.Millisecond // so that the line does not expire
	perSecond = 25                             // of a Locker's waiters, so many ask without a reason
)

// waiters are a Locker's waiters, which messages wake.
type waiters struct {
	backend *backend

	mu       sync.Mutex
	byNumber map[string]*waiter
	rhythm   rhythm // of the lock that was last looked at
	listens  bool   // on the Locker's channels
	subs     map[closer]struct{}
	closed   bool
	ctx      context.Context
	stop     context.CancelFunc
	stopped  sync.WaitGroup
}

// waiter waits for one key.
type waiter struct {
	wake chan struct{} // holds one token
}

// enter adds a waiter for a key of the grant.
func (ws *waiters) enter(g *grant) *waiter {
	w := &waiter{wake: make(chan struct{}, 1)}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byNumber == nil {
		ws.byNumber, ws.subs = map[string]*waiter{}, map[closer]struct{}{}
		ws.ctx, ws.stop = context.WithCancel(context.Background())
	}
	ws.byNumber[g.number()] = w
	return w
}

func (ws *waiters) leave(g *grant) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byNumber, g.number())
}

func (ws *waiters) count() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byNumber)
}

// recall returns what is known of a lock's rhythm.
func (ws *waiters) recall(lock string) *rhythm {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	r := rhythm{lock: lock}
	if ws.rhythm.lock == lock {
		r.hold, r.minLife, r.maxLife = ws.rhythm.hold, ws.rhythm.minLife, ws.rhythm.maxLife
	}
	return &r
}

func (ws *waiters) remember(r *rhythm) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.rhythm = *r
}

// wait waits in line until it has the key or ctx ends.
func (b *backend) wait(ctx context.Context, g *grant) error {
	w := b.waiters.enter(g)
	defer b.waiters.leave(g)
	rhythm := b.waiters.recall(g.lock)
	defer b.waiters.remember(rhythm)
	failed, splits := false, 0
	for asked := false; ; asked = true {
		b.waiters.listen()
		a := b.attempt(ctx, g, b.takeCalls(g, lineFor, asked), true)
		switch {
		case a.err == nil:
			return nil
		case a.repeatable() && !failed && ctx.Err() == nil: // the connection may have broken
			failed = true
			continue
		case !a.refused():
			return a.err
		}
		failed = false
		if splits++; !a.split {
			splits = 0 // a long wait must not make the next pauses long
		}
		if !b.pause(ctx, w, b.rest(a, splits), b.looks(g, rhythm, a.refusal)) {
			b.undo(ctx, b.releaseCalls(g, b.offerMillis, true), b.newTally())
			return context.Cause(ctx)
		}
	}
}

// rest is how long a waiter that was refused waits for a message before it asks again. splits is how many times in a row
// the votes of a Redlock were split: then it retries at a random time, unlike the others.
func (b *backend) rest(a attempt, splits int) time.Duration {
	if splits > 0 {
		return rand.N(min(500*time.Millisecond, 5*time.Millisecond<<min(splits, 7)))
	}
	rest := min(askEvery, b.env.Lease/4) << min(a.ahead, 5)
	switch {
	case a.foreign && b.redlock():
		rest = minLook
	case a.foreign && a.ahead == 0:
		rest = maxRest // it looks
	case a.foreign:
		rest *= 4 // the release of such a holder offers nothing
	}
	rest = min(timing.Jittered(max(rest, time.Duration(b.waiters.count())*time.Second/perSecond)), maxRest)
	if a.busy > 0 {
		rest = min(rest, a.busy+time.Millisecond)
	}
	return rest
}

// pause waits for a message, for a look that succeeds, or for the end of the rest. It returns false if ctx ended first.
func (b *backend) pause(ctx context.Context, w *waiter, rest time.Duration, looks *looks) bool {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	defer looks.stop()
	for {
		look := looks.next()
		select {
		case <-w.wake:
			return true
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case <-look:
			if looks.look(ctx) {
				return true
			}
		}
	}
}
