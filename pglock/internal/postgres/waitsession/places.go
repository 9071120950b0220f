package waitsession

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Wait takes r's lock when it is its turn, on a session that waits for it and then carries it. While there is no place
// for such a session, or none can be opened, it calls try after each of its pauses; tried says that this has ended the
// wait.
func (p *Pool) Wait(ctx context.Context, r driver.Request, try func() (over bool)) (g *Grant, tried bool, err error) {
	if tried, err = p.enter(ctx, try); tried || err != nil {
		return nil, tried, err
	}
	defer func() {
		if g == nil {
			p.places.Release(1)
		}
	}()
	for {
		if g, err = p.lock(ctx, r); !CannotOpen(err) {
			return g, false, err
		}
		again, stop := context.WithTimeout(ctx, openAgain)
		tried = p.poll(again, try)
		stop()
		switch {
		case tried:
			return nil, true, nil
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		}
	}
}

// enter gets a place, in the order of the calls. Until then it polls, and tried says that this has ended the wait.
func (p *Pool) enter(ctx context.Context, try func() (over bool)) (tried bool, err error) {
	if p.places.TryAcquire(1) { // not while others wait for a place
		return false, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	placed, entered := context.WithCancel(ctx)
	asked := make(chan error, 1)
	go func() {
		asked <- p.places.Acquire(ctx, 1)
		entered()
	}()
	if !p.poll(placed, try) {
		if <-asked != nil {
			return false, context.Cause(ctx)
		}
		return false, nil
	}
	stop()
	if <-asked == nil { // just then
		p.places.Release(1)
	}
	return true, nil
}

// poll calls try after each of its pauses, until try reports that the wait is over, or until ends.
func (p *Pool) poll(until context.Context, try func() (over bool)) (over bool) {
	pause := firstPoll
	for timing.Sleep(until, p.together(pause/2+rand.N(pause))) { // processes should not poll together
		if try() {
			return true
		}
		pause = min(2*pause, lastPoll)
	}
	return false
}

// together lengthens a long pause, so that pollers of this process try at the same moments, and share statements.
func (p *Pool) together(pause time.Duration) time.Duration {
	if pause < 4*pollTogether {
		return pause
	}
	end := time.Since(p.began) + pause
	return pause + (end + pollTogether - 1).Truncate(pollTogether) - end
}

const (
	firstPoll    = 20 * time.Millisecond
	lastPoll     = time.Second
	pollTogether = 50 * time.Millisecond
	openAgain    = 10 * time.Second // after the server had no room for a session
)
