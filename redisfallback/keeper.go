package redisfallback

import (
	"strings"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// keeper renews the leases of all grants of a Locker, and ends those that it could not renew in time. It is one
// goroutine, which never waits for the network, and only runs while there are grants.
type keeper struct {
	backend  *Backend
	eviction sync.Once

	mu      sync.Mutex
	grants  map[*grant]struct{}
	running bool
	closed  bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// A lease is looked at twelve times before it is over, and renewed when the next look would be later than a third of it.
const (
	looksPerLease    = 12
	renewalsPerLease = 3
)

func (k *keeper) add(g *grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grants == nil {
		k.grants, k.stop = map[*grant]struct{}{}, make(chan struct{})
	}
	k.grants[g] = struct{}{}
	if !k.running && !k.closed {
		k.running = true
		k.stopped.Go(k.run)
	}
}

// remove takes g off, and reports false when it was not on any more: it is lost, or released.
func (k *keeper) remove(g *grant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept := k.grants[g]
	delete(k.grants, g)
	return kept
}

func (k *keeper) has(g *grant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept := k.grants[g]
	return kept
}

func (k *keeper) close() {
	k.mu.Lock()
	if !k.closed && k.stop != nil {
		close(k.stop)
	}
	k.closed = true
	k.mu.Unlock()
	k.stopped.Wait()
}

func (k *keeper) run() {
	k.lookForEviction()
	timer := time.NewTimer(k.interval())
	defer timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-timer.C:
		}
		next, more := k.look()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

func (k *keeper) interval() time.Duration { return k.backend.env.Lease / looksPerLease }

// look ends what is over, renews what is due, and says when to look again; more is false when there is nothing left.
func (k *keeper) look() (next time.Duration, more bool) {
	now, next := driver.Now(), k.interval()
	var over, due []*grant
	k.mu.Lock()
	for g := range k.grants {
		left := g.Deadline().Sub(now)
		switch {
		case left <= 0:
			over = append(over, g)
			continue
		case now.Sub(driver.Instant(g.sent.Load())) > k.backend.env.Lease/renewalsPerLease-k.interval():
			due = append(due, g)
		}
		next = min(next, left)
	}
	k.running = len(k.grants) > 0
	more = k.running
	k.mu.Unlock()
	for _, g := range over {
		k.lose(g, driver.ReasonLease, errShort)
	}
	k.renew(due)
	return next, more
}

// lose tells of a loss, once, and gives back what may be left of the grant.
func (k *keeper) lose(g *grant, why driver.Reason, err error) {
	if !k.remove(g) {
		return
	}
	g.listener()(why, err)
	b := k.backend
	for i := range g.holdings() {
		calls := b.releaseCalls(g, i)
		for n := range calls {
			b.nodes[n].submit(&calls[n])
		}
	}
}

// renew asks for longer leases, all of them in one pipeline for each node.
func (k *keeper) renew(due []*grant) {
	b := k.backend
	batches := make([][]*call, len(b.nodes))
	for _, g := range due {
		held := g.holdings()
		r := &renewal{keeper: k, grant: g, sent: driver.Now(), missing: len(held)}
		g.sent.Store(int64(r.sent))
		for i := range held {
			t := b.newTally()
			calls := b.renewCalls(g, i)
			for n := range calls {
				calls[n].then = func(c *call) {
					yes, err := c.said()
					r.count(t, n, yes, err)
				}
				batches[n] = append(batches[n], &calls[n])
			}
		}
	}
	for i, batch := range batches {
		if len(batch) > 0 {
			b.nodes[i].submit(batch...)
		}
	}
}

// renewal is one attempt to lengthen a grant's leases, of which each key needs a quorum.
type renewal struct {
	keeper *keeper
	grant  *grant
	sent   driver.Instant

	mu      sync.Mutex
	missing int // keys that have no quorum yet
}

// count adds a node's answer about one key.
func (r *renewal) count(t *tally, node int, yes bool, err error) {
	r.mu.Lock()
	before := t.carried()
	t.count(node, yes, err)
	if t.carried() && !before {
		r.missing--
	}
	done, gone, failed := r.missing == 0, t.refused(), t.over() && !t.carried() && !t.refused()
	r.mu.Unlock()
	switch {
	case gone:
		r.keeper.lose(r.grant, driver.ReasonSession, errGone)
	case done:
		r.grant.extend(r.sent, r.sent.Add(r.keeper.backend.trusted()))
	case failed:
		r.grant.hurry()
	}
}

// lookForEviction warns, once, when the server may throw locks away to make room.
func (k *keeper) lookForEviction() {
	k.eviction.Do(func() {
		for _, n := range k.backend.nodes {
			n.submit(&call{request: request{args: []any{"info", "memory"}}, then: func(c *call) {
				if info, ok := c.value.(string); ok && mayEvict(info) {
					k.backend.env.Logger.Warn("Redis may evict locks to make room: set maxmemory-policy to noeviction",
						"node", n.name, "policy", field(info, "maxmemory_policy"))
				}
			}})
		}
	})
}

func mayEvict(info string) bool {
	return field(info, "maxmemory") != "0" && field(info, "maxmemory_policy") != "noeviction"
}

// field reads one line of what INFO returns.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
