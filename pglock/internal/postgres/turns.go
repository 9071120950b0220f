package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// turns bounds the sessions that wait in the server's queue. Requests beyond the bound poll: one goroutine tries for all
// of them, in one statement per tick, and the one that has polled for longest gets the next free place in the queue,
// since pollers do not get anywhere behind a queue. A poller has no place in the server's queue until then.
type turns struct {
	backend *Backend

	mu       sync.Mutex
	waiting  int // sessions that wait
	carrying int // sessions that hold a lock that was waited for
	pollers  []*poller
	polling  bool // a goroutine polls
}

// poller is a request without a place in the server's queue.
type poller struct {
	ctx     context.Context
	request driver.Request
	done    chan struct{} // closed when it has a turn, a grant or an error
	grant   *grant
	err     error
}

// take returns a turn to wait (nil, nil), or the grant that polling for one came to.
func (t *turns) take(ctx context.Context, r driver.Request) (*grant, error) {
	t.mu.Lock()
	if len(t.pollers) == 0 && t.free() {
		t.waiting++
		t.mu.Unlock()
		return nil, nil
	}
	p := &poller{ctx: ctx, request: r, done: make(chan struct{})}
	t.pollers = append(t.pollers, p)
	if !t.polling {
		t.polling = true
		go t.poll()
	}
	t.mu.Unlock()

	select {
	case <-p.done:
	case <-ctx.Done():
		t.mu.Lock()
		if t.leave(p) {
			p.err = context.Cause(ctx)
			close(p.done)
		}
		t.mu.Unlock()
		<-p.done // a grant or a turn that came first, or a try for it in flight, is used
	}
	return p.grant, p.err
}

func (t *turns) free() bool {
	o := t.backend.config.Options
	return t.waiting < o.MaxWaitSessions && t.waiting+t.carrying < o.MaxWaitSessions+maxCarriers
}

// leave takes p out of the pollers, and reports whether it was there. It runs under mu.
func (t *turns) leave(p *poller) bool {
	i := slices.Index(t.pollers, p)
	if i >= 0 {
		t.pollers = slices.Delete(t.pollers, i, i+1)
	}
	return i >= 0
}

// waited ends a turn, which came to g, or to nothing.
func (t *turns) waited(g *grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	t.carry(g)
	t.pass()
}

// borrowed counts the session of a lock that was not waited for, but could not be had on a main session.
func (t *turns) borrowed(g *grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.carry(g)
}

// carry counts g's session. It runs under mu.
func (t *turns) carry(g *grant) {
	if g == nil {
		return
	}
	t.carrying++
	g.carried.Store(true)
	if g.told.Load() && g.carried.CompareAndSwap(true, false) { // lost before it was counted
		t.carrying--
	}
}

// put uncounts the session of g, which is released or lost; a second time does nothing.
func (t *turns) put(g *grant) {
	if !g.carried.CompareAndSwap(true, false) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.carrying--
	t.pass()
}

// pass gives free places to those who have polled for longest. It runs under mu.
func (t *turns) pass() {
	for len(t.pollers) > 0 && t.free() {
		p := t.pollers[0]
		t.pollers = t.pollers[1:]
		t.waiting++
		close(p.done)
	}
}

// poll tries for all pollers until there are none.
func (t *turns) poll() {
	for interval := firstPoll; ; interval = min(2*interval, lastPoll) {
		time.Sleep(interval/2 + rand.N(interval))
		t.mu.Lock()
		tried := t.pollers
		t.pollers = nil
		if len(tried) == 0 {
			t.polling = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if t.tryAll(tried) {
			interval = firstPoll / 2
		}
	}
}

// tryAll tries for each, at the same time, which the main sessions make one statement of. Those that get nothing are
// pollers again. It reports whether anybody got something.
func (t *turns) tryAll(tried []*poller) (progress bool) {
	var wg sync.WaitGroup
	results := make([]error, len(tried))
	for i, p := range tried {
		wg.Go(func() { p.grant, results[i] = t.backend.tryMain(context.WithoutCancel(p.ctx), p.request) })
	}
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	var again []*poller
	for i, p := range tried {
		switch {
		case results[i] == nil:
			progress = true
		case !isNotAcquired(results[i]):
			p.err = results[i]
		case p.ctx.Err() != nil:
			p.err = context.Cause(p.ctx)
		default:
			again = append(again, p)
			continue
		}
		close(p.done)
	}
	t.pollers = append(again, t.pollers...)
	t.pass()
	return progress
}

const (
	maxCarriers = 16 // sessions that hold what was waited for, beyond those that may wait
	firstPoll   = 20 * time.Millisecond
	lastPoll    = time.Second
)
