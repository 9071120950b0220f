package postgres

import (
	"slices"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that one session holds.
type grant struct {
	lane      *mainSession // the session that carries it among others, or
	session   *session     // the one that carries it alone
	spaces    []int16
	numbers   []int64
	shared    bool
	owner     driver.Owner
	told      atomic.Bool
	carried   atomic.Bool // counted by turns
	uncounted atomic.Bool // by lanes, for a grant on a session of its own

	ask        ask    // what is asked for it of a main session
	prev, next *grant // in the list of its main session

	// Where the arrays are when there is one key.
	oneSpace  [1]int16
	oneNumber [1]int64
}

func newGrant(s *session, r driver.Request) *grant {
	g := &grant{session: s, shared: r.Shared, owner: r.Owner}
	if len(r.Keys) == 1 {
		g.oneSpace[0], g.oneNumber[0] = int16(r.Keys[0].Space), r.Keys[0].Number
		g.spaces, g.numbers = g.oneSpace[:], g.oneNumber[:]
		return g
	}
	g.spaces, g.numbers = arrays(r.Keys)
	return g
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

// size is the number of keys.
func (g *grant) size() int64 { return int64(len(g.numbers)) }

func (g *grant) id(i int) driver.KeyID {
	return driver.KeyID{Space: driver.Space(g.spaces[i]), Number: g.numbers[i]}
}

// held returns the keys, for who does not know whether g is just being released.
func (g *grant) held() (spaces []int16, numbers []int64) {
	if g.lane != nil {
		g.lane.lanes.mu.Lock()
		defer g.lane.lanes.mu.Unlock()
	}
	return g.spaces, g.numbers
}

// keep reduces g to the keys for which got is true. Those who have called held keep what they got.
func (g *grant) keep(got []bool) {
	if !slices.Contains(got, false) && len(got) == len(g.numbers) {
		return
	}
	spaces, numbers := g.spaces, g.numbers
	g.spaces, g.numbers = nil, nil
	for i := range got {
		if got[i] {
			g.spaces, g.numbers = append(g.spaces, spaces[i]), append(g.numbers, numbers[i])
		}
	}
}

// arrays splits keys into the two arrays that the statements take.
func arrays(keys []driver.Key) (spaces []int16, numbers []int64) {
	spaces, numbers = make([]int16, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		spaces[i], numbers[i] = int16(key.Space), key.Number
	}
	return spaces, numbers
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
