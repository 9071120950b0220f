package monitor

import (
	"cmp"
	"iter"
	"time"
)

// SessionID identifies a session, prepared transaction or process within one snapshot.
type SessionID struct {
	// PID is the process ID of a session; 0 for a prepared transaction, which GID identifies, and for a process.
	PID int32  `json:"pid"`
	GID string `json:"gid"`
	// Holder identifies a process ([Lease.Holder]).
	Holder string `json:"holder"`
}

// ID identifies s within its snapshot.
func (s Session) ID() SessionID {
	id := SessionID{PID: s.PID, GID: s.GID}
	if s.Lease != nil {
		id.Holder = s.Lease.Holder
	}
	return id
}

// ID returns the blocking session.
func (b Blocker) ID() SessionID { return SessionID{b.PID, b.GID, b.Holder} }

// compare orders sessions by process ID, prepared transactions by their identifiers, and processes last.
func (id SessionID) compare(other SessionID) int {
	return cmp.Or(cmp.Compare(id.Holder, other.Holder), cmp.Compare(id.PID, other.PID), cmp.Compare(id.GID, other.GID))
}

// Wait is a wait of a session or process for a lock of any type.
type Wait struct {
	// Lock is the advisory lock or lock in a row that it waits for, and Other the lock of another type. One of them is
	// nil.
	Lock  *Lock
	Other *OtherLock
	*Waiter
}

// Label describes what is waited for, as [Lock.Label] or [OtherLock.String] does.
func (w Wait) Label() string {
	if w.Other != nil {
		return w.Other.String()
	}
	return w.Lock.Label()
}

// waited returns how long it has lasted at a time, 0 if that is unknown.
func (w *Waiter) waited(at time.Time) time.Duration {
	if w.WaitingSince == nil {
		return 0
	}
	return max(0, at.Sub(*w.WaitingSince))
}

// Waits returns an iterator over all waits: those for advisory locks and locks in rows, and then those for others.
func (s *Snapshot) Waits() iter.Seq[Wait] {
	return func(yield func(Wait) bool) {
		for i := range s.Locks {
			lock := &s.Locks[i]
			for j := range lock.Waiters {
				if !yield(Wait{Lock: lock, Waiter: &lock.Waiters[j]}) {
					return
				}
			}
		}
		for i := range s.OtherWaits {
			if other := &s.OtherWaits[i]; !yield(Wait{Other: &other.Lock, Waiter: &other.Waiter}) {
				return
			}
		}
	}
}

// Sessions returns an iterator over all sessions, prepared transactions and processes of the snapshot's locks and wait
// graph, each once.
func (s *Snapshot) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		seen := map[SessionID]bool{}
		once := func(session *Session) bool {
			id := session.ID()
			if seen[id] {
				return true
			}
			seen[id] = true
			return yield(*session)
		}
		for i := range s.Locks {
			lock := &s.Locks[i]
			for k := range lock.Holders {
				if !once(&lock.Holders[k].Session) {
					return
				}
			}
			for k := range lock.Waiters {
				if !once(&lock.Waiters[k].Session) {
					return
				}
			}
		}
		for i := range s.OtherSessions {
			if !once(&s.OtherSessions[i]) {
				return
			}
		}
	}
}

// waitGraph numbers the sessions that wait or block others.
type waitGraph struct {
	ids     []SessionID
	numbers map[SessionID]int
	edges   []int           // by wait, in their order: the numbers of the waiter and of its nearest blockers
	waiting [][]int         // by session: those that wait for it directly
	waited  []time.Duration // by session: its longest wait, negative if it does not wait
	urgent  []bool          // by session: it waits, and that is not expected
}

func newWaitGraph(s *Snapshot) *waitGraph {
	g := &waitGraph{numbers: map[SessionID]int{}}
	for wait := range s.Waits() {
		waiter := g.number(wait.ID())
		g.edges = append(g.edges, waiter)
		g.waited[waiter] = max(g.waited[waiter], wait.waited(s.TakenAt))
		g.urgent[waiter] = g.urgent[waiter] || !wait.Expected
		for _, blocker := range wait.BlockedBy {
			at := g.number(blocker.ID())
			g.edges = append(g.edges, at)
			g.waiting[at] = append(g.waiting[at], waiter)
		}
	}
	return g
}

func (g *waitGraph) number(id SessionID) int {
	n, known := g.numbers[id]
	if !known {
		n = len(g.ids)
		g.numbers[id] = n
		g.ids, g.waiting, g.waited, g.urgent = append(g.ids, id), append(g.waiting, nil), append(g.waited, -1), append(g.urgent, false)
	}
	return n
}

// behind returns how many sessions wait for one, directly or through others, the longest wait of it and these, and
// whether one of these waits is not expected.
func (g *waitGraph) behind(one int) (behind int, longest time.Duration, urgent bool) {
	longest = g.waited[one]
	seen := map[int]bool{one: true}
	for todo := []int{one}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo, longest, urgent = todo[:len(todo)-1], max(longest, g.waited[at]), urgent || g.urgent[at]
		for _, waiter := range g.waiting[at] {
			if !seen[waiter] {
				seen[waiter] = true
				todo = append(todo, waiter)
			}
		}
	}
	return len(seen) - 1, longest, urgent
}
