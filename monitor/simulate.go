package monitor

import (
	"fmt"
	"slices"
)

// simulation answers what would happen if sessions ended, or their waits. PostgreSQL grants what a session waits for when
// none of those that pg_blocking_pids names is left: holders whose mode conflicts, and waiters ahead whose mode conflicts.
// Waits that belong to normal work are not part of it.
type simulation struct {
	waits  []simulatedWait
	blocks [][]int // by session: the waits that it blocks
	needs  []int   // by session: how many of its waits must end; a process does several things at once, and goes on with any of them
}

type simulatedWait struct {
	waiter   int
	blockers []int // the nearest, each once
	hard     bool  // they hold the lock
	ahead    bool  // others stand ahead in the queue besides, so it is not granted at once
	exact    bool  // nothing but these blockers is in the way
}

// sent is what is sent to a session: its wait ends or, if ends is set, the session itself.
type sent struct {
	session int
	ends    bool
}

// Effect counts the sessions that proceed after a signal, without its target.
type Effect struct {
	// Frees is how many proceed at once, at least.
	Frees int
	// Then is how many follow them, one after another.
	Then int
	// AtMost is how many proceed sooner or later, at most. It exceeds Frees and Then together, and Then is 0, if some wait for a
	// transaction, of whose blockers PostgreSQL names one at a time, or for a lock in a row. So it is if the session whose wait is
	// cancelled blocks others: its transaction may end with the wait.
	AtMost int
}

// String says it in a few words: "frees 3", "frees 1, then 19 more", "frees at least 0, at most 2".
func (e Effect) String() string {
	switch {
	case e.AtMost == 0:
		return "frees none"
	case e.AtMost > e.Frees+e.Then:
		return fmt.Sprintf("frees at least %d, at most %d", e.Frees, e.AtMost)
	case e.Then > 0:
		return fmt.Sprintf("frees %d, then %d more", e.Frees, e.Then)
	}
	return fmt.Sprintf("frees %d", e.Frees)
}

func newSimulation(s *Snapshot, g *waitGraph) *simulation {
	m := &simulation{blocks: make([][]int, len(g.ids)), needs: make([]int, len(g.ids))}
	transactions := map[int][]int{} // by session: the blockers of its wait for a transaction
	var rows []int                  // the waits for a place in the queue for a row
	edges := g.edges
	for wait := range s.Waits() {
		near := wait.BlockedBy
		w := simulatedWait{waiter: edges[0], blockers: edges[1 : 1+len(near) : 1+len(near)], exact: wait.exact()}
		edges = edges[1+len(near):]
		if wait.Expected {
			continue
		}
		w.hard = len(near) > 0 && near[0].Kind == blockHard
		if w.ahead = wait.Ahead > len(near); w.hard {
			w.ahead = wait.Ahead > 0
		}
		switch {
		case wait.Other != nil && wait.Other.Type == "transactionid":
			transactions[w.waiter] = w.blockers
		case wait.Other != nil && wait.Other.Type == "tuple":
			rows = append(rows, len(m.waits))
		}
		m.waits = append(m.waits, w)
	}
	// Who is first in the queue for a row waits for a transaction, and so does the next one as soon as it is first.
	for _, at := range rows {
		all := m.waits[at].blockers
		for _, first := range all {
			all = append(all, transactions[first]...)
		}
		slices.Sort(all)
		m.waits[at].blockers = slices.Compact(all)
	}
	for i := range m.waits {
		w := &m.waits[i]
		m.needs[w.waiter]++
		if g.ids[w.waiter].Holder != "" {
			m.needs[w.waiter] = 1
		}
		for _, b := range w.blockers {
			m.blocks[b] = append(m.blocks[b], i)
		}
	}
	return m
}

// exact reports whether the wait is over for certain when its blockers are gone.
func (w Wait) exact() bool {
	return w.Lock != nil && !w.Lock.InRow ||
		w.Other != nil && slices.Contains([]string{"relation", "extend", "page", "object", "frozenid"}, w.Other.Type)
}

// effect simulates signals that are sent together.
func (m *simulation) effect(signals []sent) (e Effect) {
	e.Frees, _ = m.run(signals, true)
	now, then := m.run(signals, false)
	if e.AtMost = now + then; now == e.Frees {
		e.Then = then
	}
	return e
}

// run returns how many sessions go on at once, and how many after these. Certain ones are those whose waits are exact and, if a
// wait is cancelled, do not need what its session holds.
func (m *simulation) run(signals []sent, certain bool) (now, then int) {
	left, needs := make([]int, len(m.waits)), make([]int, len(m.needs))
	for i := range m.waits {
		left[i] = len(m.waits[i].blockers)
	}
	copy(needs, m.needs)
	gone := make([]bool, len(needs)) // signalled, or counted
	var going, later []int           // sessions that go on, and waits whose turn comes after these
	end := func(at int) {
		if w := &m.waits[at]; !gone[w.waiter] {
			if needs[w.waiter]--; needs[w.waiter] == 0 {
				going, gone[w.waiter] = append(going, w.waiter), true
			}
		}
	}
	remove := func(session int, holds bool) {
		for _, at := range m.blocks[session] {
			w := &m.waits[at]
			if w.hard && !holds {
				continue
			}
			switch left[at]--; {
			case left[at] > 0:
			case w.ahead || certain && !w.exact:
				later = append(later, at)
			default:
				end(at)
			}
		}
	}
	for _, s := range signals {
		gone[s.session] = true
	}
	for _, s := range signals {
		remove(s.session, s.ends || !certain)
	}
	if now = len(going); certain || now == 0 {
		return now, 0
	}
	for done := 0; done < len(going) || len(later) > 0; {
		for ; done < len(going); done++ {
			remove(going[done], true)
		}
		turn := later
		later = nil
		for _, at := range turn {
			end(at)
		}
	}
	return now, len(going) - now
}
