package postgres

import (
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that one session holds. What who settles many of them looks at comes first, side by side.
type grant struct {
	ask        ask          // what is asked for it of a main session
	lane       *mainSession // the session that carries it among others, or
	prev, next *grant       // in the list of its main session
	keySet
	shared    bool
	told      atomic.Bool
	carried   atomic.Bool // counted by turns
	uncounted atomic.Bool // by lanes, for a grant on a session of its own

	session *session // the one that carries it alone
	owner   driver.Owner
}

func newGrant(s *session, r driver.Request) *grant {
	return &grant{session: s, shared: r.Shared, owner: r.Owner, keySet: newKeySet(r.Keys)}
}

// Deadline implements [driver.Grant]: the session's lease is the grant's.
func (g *grant) Deadline() driver.Instant {
	if g.lane != nil {
		return g.lane.deadline()
	}
	return g.session.deadline()
}

// Polled implements [driver.Poller]: what was waited for in the server's queue stays on the session that waited.
func (g *grant) Polled() bool { return g.session == nil }

// tell reports the loss to the front end, at most once.
func (g *grant) tell(why driver.Reason, err error) {
	if g.told.CompareAndSwap(false, true) {
		g.owner.Lost(why, err)
	}
}

// held returns the keys, for who does not know whether g is just being released.
func (g *grant) held() (spaces []int16, numbers []int64) {
	if g.lane != nil {
		g.lane.lanes.mu.Lock()
		defer g.lane.lanes.mu.Unlock()
	}
	return g.spaces(), g.numbers()
}

// grantList is a list of grants that an entry can leave in constant time.
type grantList struct {
	first *grant
	n     int
}

func (l *grantList) add(g *grant) {
	l.n++
	g.prev, g.next = nil, l.first
	if g.next != nil {
		g.next.prev = g
	}
	l.first = g
}

// remove reports whether g was in the list.
func (l *grantList) remove(g *grant) bool {
	switch {
	case g.prev != nil:
		g.prev.next = g.next
	case l.first == g:
		l.first = g.next
	default:
		return false
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.prev, g.next = nil, nil
	l.n--
	return true
}

// takeAll empties the list.
func (l *grantList) takeAll() (all []*grant) {
	for g := l.first; g != nil; g = l.first {
		all = append(all, g)
		l.remove(g)
	}
	return all
}
