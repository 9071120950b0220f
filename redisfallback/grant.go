package redisfallback

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that are held, or are about to be.
type grant struct {
	shared bool
	token  string
	waiter string // "INSTANCE NUMBER TOKEN": how it waits, and how it holds when it is shared
	number string
	polled bool // waited without a place in a line that all nodes agree on

	until atomic.Int64 // a driver.Instant
	sent  atomic.Int64 // when the last renewal was, or the acquisition

	mu   sync.Mutex
	held []*holding
	lost func(driver.Reason, error)
}

// holding is one key of a grant.
type holding struct {
	*names
	locks []string // the lock alone, as calls have it
	asked []*call  // by node: the last attempt
}

func (b *Backend) newGrant(r driver.Request) *grant {
	number := strconv.FormatUint(b.serial.Add(1), 10)
	token := r.Token.String()
	return &grant{shared: r.Shared, token: token, number: number, waiter: b.instance + " " + number + " " + token}
}

// Deadline implements [driver.Grant].
func (g *grant) Deadline() driver.Instant { return driver.Instant(g.until.Load()) }

// Polled implements [driver.Poller].
func (g *grant) Polled() bool { return g.polled }

// owner is how the grant is known where it holds.
func (g *grant) owner() string {
	if g.shared {
		return g.waiter
	}
	return g.token
}

// tokenOf is what a waiter or a shared holder has for a token.
func tokenOf(waiter string) string {
	parts := strings.SplitN(waiter, " ", 3)
	return parts[len(parts)-1]
}

// pick chooses between the scripts for exclusive and shared locks.
func (g *grant) pick(exclusive, shared *script) *script {
	if g.shared {
		return shared
	}
	return exclusive
}

func (g *grant) holdings() []*holding {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// add makes h one of the grant's keys, trusted until then.
func (g *grant) add(h *holding, sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 || until < g.Deadline() {
		g.until.Store(int64(until))
		g.sent.Store(int64(sent))
	}
	g.held = append(g.held, h)
}

// clear forgets the keys.
func (g *grant) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = nil
}

// tell sets whom to tell of a loss.
func (g *grant) tell(lost func(driver.Reason, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = lost
}

func (g *grant) listener() func(driver.Reason, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// callsAbout makes a script call about h for every node.
func (b *Backend) callsAbout(g *grant, h *holding, exclusive, shared *script, args ...any) []*call {
	s := g.pick(exclusive, shared)
	return concerning(h.locks, b.calls(s, h.keys(s.keys), args...))
}

// concerning says which locks calls are about.
func concerning(locks []string, calls []*call) []*call {
	for _, c := range calls {
		c.locks = locks
	}
	return calls
}

func (b *Backend) releaseCalls(g *grant, h *holding) []*call {
	calls := b.callsAbout(g, h, releaseExclusive, releaseShared, g.owner(), b.offerMillis)
	if !g.shared {
		for _, c := range calls {
			c.bare = func() request { return request{script: releaseBare, keys: h.keys(1), args: []any{g.token}} }
		}
	}
	return calls
}

// withdrawCalls ends a wait and gives back what it may have got.
func (b *Backend) withdrawCalls(g *grant, h *holding, offer int64) []*call {
	args := []any{g.waiter, offer}
	if !g.shared {
		args = []any{g.token, g.waiter, offer}
	}
	calls := b.callsAbout(g, h, withdrawExclusive, withdrawShared, args...)
	if !g.shared {
		for _, c := range calls {
			c.bare = func() request { return request{script: releaseBare, keys: h.keys(1), args: []any{g.token}} }
		}
	}
	return calls
}

func (b *Backend) checkCalls(g *grant, h *holding) []*call {
	return b.callsAbout(g, h, checkExclusive, checkShared, g.owner())
}

func (b *Backend) renewCalls(g *grant, h *holding) []*call {
	return b.callsAbout(g, h, renewExclusive, renewShared, g.owner(), b.leaseMillis)
}

// extend moves the deadline, which never moves back.
func (g *grant) extend(sent, until driver.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent.Store(int64(max(sent, driver.Instant(g.sent.Load()))))
	g.until.Store(int64(max(until, g.Deadline())))
}

// hurry has the lease renewed at the next look, because the last attempt failed.
func (g *grant) hurry() { g.sent.Store(0) }
