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
	trying  bool          // a try for it is on its way
	left    bool          // its caller has left while it was
	done    chan struct{} // closed when it has a turn, a grant or an error
	grant   *grant
	err     error
}

// take returns a turn to wait (nil, nil), or the grant that polling for one came to.
func (t *turns) take(ctx context.Context, r driver.Request) (*grant, error) {
	p := t.join(ctx, r)
	if p == nil {
		return nil, nil
	}
	select {
	case <-p.done:
		return p.grant, p.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-p.done: // a turn, or a grant, that came first is used
		return p.grant, p.err
	default:
	}
	if p.trying {
		p.left = true // what comes of the try is given back
	}
	t.pollers = slices.DeleteFunc(t.pollers, func(other *poller) bool { return other == p })
	return nil, context.Cause(ctx)
}

// join returns nil if there is a turn for r, and otherwise makes it a poller.
func (t *turns) join(ctx context.Context, r driver.Request) *poller {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pollers) == 0 && t.free() {
		t.waiting++
		return nil
	}
	r.Keys = slices.Clone(r.Keys) // a try may outlive the call
	p := &poller{ctx: ctx, request: r, done: make(chan struct{})}
	t.pollers = append(t.pollers, p)
	if !t.polling {
		t.polling = true
		t.backend.spawn(t.poll)
	}
	return p
}

func (t *turns) free() bool {
	o := t.backend.config.Options
	return t.waiting < o.MaxWaitSessions && t.waiting+t.carrying < o.MaxWaitSessions+maxCarriers
}

// mayCarry reports whether one more session may carry a lock that was not waited for.
func (t *turns) mayCarry() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.carrying < maxCarriers
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
	for t.free() {
		i := slices.IndexFunc(t.pollers, func(p *poller) bool { return !p.trying })
		if i < 0 {
			return
		}
		p := t.pollers[i]
		t.pollers = slices.Delete(t.pollers, i, i+1)
		t.waiting++
		close(p.done)
	}
}

// poll tries for all pollers until there are none. They are all left when the backend is closed, since the front end
// has ended their contexts before.
func (t *turns) poll() {
	for interval := firstPoll; ; interval = min(2*interval, lastPoll) {
		pause(t.backend.life, interval/2+rand.N(interval))
		tried := t.begin()
		if tried == nil {
			return
		}
		if t.tryAll(tried) {
			interval = firstPoll / 2
		}
	}
}

// begin returns those to try for, or nil when there is nobody and polling ends.
func (t *turns) begin() []*poller {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pollers) == 0 {
		t.polling = false
		return nil
	}
	for _, p := range t.pollers {
		p.trying = true
	}
	return slices.Clone(t.pollers)
}

// tryAll tries for each, at the same time, which the main sessions make one statement of. It reports whether anybody
// got something.
func (t *turns) tryAll(tried []*poller) (progress bool) {
	var wg sync.WaitGroup
	for _, p := range tried {
		wg.Go(func() {
			g, err := t.backend.tryMain(context.WithoutCancel(p.ctx), p.request)
			if t.settle(p, g, err) {
				_ = t.backend.Release(p.ctx, g) // nobody has it; a failure ends its session, which frees it as well
			}
		})
	}
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range tried {
		p.trying = false
		progress = progress || p.grant != nil
	}
	t.pass()
	return progress
}

// settle tells a poller what came of its try, and reports whether there is a grant and nobody to take it.
func (t *turns) settle(p *poller, g *grant, err error) (orphan bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.left:
		return err == nil
	case isNotAcquired(err):
		return false
	}
	p.grant, p.err = g, err
	t.pollers = slices.DeleteFunc(t.pollers, func(other *poller) bool { return other == p })
	close(p.done)
	return false
}

const (
	maxCarriers = 16 // sessions that hold what was waited for, beyond those that may wait
	firstPoll   = 20 * time.Millisecond
	lastPoll    = time.Second
)
