package redisfallback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// renewer renews the leases of all grants of a Locker and ends those that it could not renew in time. It is one
// goroutine that never waits for the network and only runs while there are grants.
type renewer struct {
	backend *backend
	nodes   []*node // with their own connections, made for the first grant

	mu      sync.Mutex
	grants  map[*grant]struct{}
	running bool
	closed  bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// A lease is checked twelve times before it ends, and renewed when the next check would be later than a third of it.
const (
	ticksPerLease    = 12
	renewalsPerLease = 3
)

// add keeps g alive until it is removed. It returns false if the Locker is closed.
func (r *renewer) add(g *grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.grants == nil {
		r.grants, r.stop = map[*grant]struct{}{}, make(chan struct{})
	}
	r.grants[g] = struct{}{}
	if !r.running {
		r.running = true
		if r.nodes == nil {
			r.nodes = r.backend.renewalNodes()
		}
		r.stopped.Go(r.run)
	}
	return true
}

// remove removes g. It returns false if g was not there any more: it is lost or released.
func (r *renewer) remove(g *grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, kept := r.grants[g]
	delete(r.grants, g)
	return kept
}

func (r *renewer) close(ctx context.Context) (err error) {
	r.mu.Lock()
	if !r.closed && r.stop != nil {
		close(r.stop)
	}
	r.closed = true
	nodes := r.nodes
	r.mu.Unlock()
	r.stopped.Wait()
	for i, n := range nodes {
		if n.client != r.backend.nodes[i].client {
			n.drain(ctx)
			err = errors.Join(err, n.client.Close())
		}
	}
	return err
}

func (r *renewer) run() {
	timer := time.NewTimer(r.interval())
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-timer.C:
		}
		next, more := r.tick()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

func (r *renewer) interval() time.Duration { return r.backend.env.Lease / ticksPerLease }

// tick ends expired grants, renews those that are due, and returns the time until the next tick; more is false if no
// grants are left.
func (r *renewer) tick() (next time.Duration, more bool) {
	now, next := driver.Now(), r.interval()
	var over, due []*grant
	r.mu.Lock()
	for g := range r.grants {
		left := g.Deadline().Sub(now)
		switch {
		case left <= 0:
			over = append(over, g)
			continue
		case now.Sub(driver.Instant(g.sent.Load())) > r.backend.env.Lease/renewalsPerLease-r.interval():
			due = append(due, g)
		}
		next = min(next, left)
	}
	r.running = len(r.grants) > 0
	more = r.running
	r.mu.Unlock()
	for _, g := range over {
		r.lose(g, driver.LostLease, errTooLate)
	}
	r.renew(due)
	return next, more
}

// lose reports the loss of g, once, and releases what may be left of it.
func (r *renewer) lose(g *grant, why driver.LostReason, err error) {
	if !r.remove(g) {
		return
	}
	g.owner.Lost(why, err)
	b := r.backend
	calls := b.releaseCalls(g, b.offerMillis, true)
	for n := range calls {
		b.nodes[n].submit(&calls[n])
	}
}

// renew renews the leases of grants, with one pipeline for each node.
func (r *renewer) renew(due []*grant) {
	b := r.backend
	batches := make([][]*call, len(b.nodes))
	for _, g := range due {
		a := &renewal{renewer: r, grant: g, sent: driver.Now(), tally: b.newTally()}
		g.sent.Store(int64(a.sent))
		calls := b.renewCalls(g)
		for n := range calls {
			calls[n].then = func(c *call) {
				yes, err := c.said()
				a.count(n, yes, err)
			}
			batches[n] = append(batches[n], &calls[n])
		}
	}
	for i, batch := range batches {
		r.nodes[i].submit(batch...)
	}
}

// renewal is one attempt to renew a grant.
type renewal struct {
	renewer *renewer
	grant   *grant
	sent    driver.Instant

	mu    sync.Mutex
	tally *tally
}

// count adds a node's answer.
func (a *renewal) count(node int, yes bool, err error) {
	a.mu.Lock()
	t := a.tally
	t.count(node, yes, err)
	done, gone, failed := t.hasQuorum(), t.gone(), t.over() && !t.hasQuorum() && !t.gone()
	a.mu.Unlock()
	switch {
	case gone:
		a.renewer.lose(a.grant, driver.LostGone, errGone)
	case done:
		a.grant.extend(a.sent, a.sent.Add(a.renewer.backend.trusted()))
	case failed:
		a.grant.renewSoon()
	}
}
