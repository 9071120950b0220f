package monitor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cycle is a deadlock or a possible deadlock: sessions that each wait for the next, and the last for the first.
type Cycle struct {
	// Certain says that each session itself waits for the next. PostgreSQL then ends one of the waits after
	// deadlock_timeout. Otherwise the cycle goes through several sessions of a process that uses pglock, which
	// PostgreSQL treats as unrelated. Then it is a deadlock only if the same task of that process holds one lock and
	// waits for the other, which only the process knows. Such a deadlock does not end by itself. If it is none, the cycle
	// ends when a lock is released. The same goes for processes that use locks in rows.
	Certain bool `json:"certain"`
	// Since is when the last of the waits began, so the cycle is no older. It is nil if the time of a wait is unknown.
	Since *time.Time `json:"since"`
	// Steps are the waits, starting with that of the session with the smallest process ID, or process with the smallest ID.
	Steps []Step `json:"steps"`
}

// String draws the cycle: "11 → 12 → 11".
func (c Cycle) String() string {
	var names []string
	for _, step := range append(slices.Clone(c.Steps), c.Steps[:min(1, len(c.Steps))]...) {
		names = append(names, step.name())
	}
	return strings.Join(names, " → ")
}

// Step is a wait that is part of a [Cycle].
type Step struct {
	// PID is the session that waits, and Process its process ([Session.Process]). Of a process that waits for a lock in a row,
	// PID is 0, and Process is its [Lease.Holder].
	PID     int32  `json:"pid"`
	Process string `json:"process"`
	// Key and Database are those of the lock that it waits for, as in [Lock]. For a lock that is not an advisory lock,
	// Key is what [OtherLock.String] returns.
	Key      string `json:"key"`
	Database string `json:"database"`
	// BlockedBy is the session that blocks it: the session of the next step, or another one of the same process. It is 0 in
	// front of a process that uses locks in rows.
	BlockedBy int32 `json:"blocked_by"`
	// Kind says why BlockedBy blocks it.
	Kind string `json:"kind"`
}

// ID returns the session or process that waits.
func (s Step) ID() SessionID {
	if s.PID == 0 {
		return SessionID{Holder: s.Process}
	}
	return SessionID{PID: s.PID}
}

// String says who waits for what: "11 waits for invoice:42".
func (s Step) String() string { return s.name() + " waits for " + s.Key }

func (s Step) name() string {
	if s.PID == 0 {
		return s.Process
	}
	return fmt.Sprint(s.PID)
}

// cycles returns cycles of the wait graph. It does not return all of them, since there can be very many, but every
// session that is part of a cycle is in at least one of them.
func cycles(s *Snapshot) []Cycle {
	all := []Cycle{}
	waits, rows := waitEdges(s)
	certain := map[SessionID]bool{}
	forCertain := slices.DeleteFunc(slices.Clone(waits), func(w waitEdge) bool { return w.permit })
	for _, found := range findCycles(forCertain) {
		all = append(all, newCycle(found, true))
		for _, w := range found {
			certain[w.from] = true
		}
	}
	for _, found := range findCycles(append(joinProcesses(waits, s), rows...)) {
		if !slices.ContainsFunc(found, func(w waitEdge) bool { return certain[w.from] }) {
			all = append(all, newCycle(found, false))
		}
	}
	return all
}

// waitEdge is an edge of the wait graph.
type waitEdge struct {
	Step
	since *time.Time
	from  SessionID
	// next is the session whose wait makes this one wait: the blocker or, in a joined graph, a session of its process.
	next SessionID
	// candidate says that it waits to be elected, or to run a job, and expected is that or another wait of normal work.
	candidate, expected bool
	permit              bool // it waits for a permit, so for any of its blockers
}

// waitEdges returns the edges of sessions, and those of processes that use locks in rows. A process whose wait is expected holds
// nothing meanwhile, or may.
func waitEdges(s *Snapshot) (sessions, rows []waitEdge) {
	for w := range s.Waits() {
		step := Step{PID: w.PID, Process: w.Process}
		edge := waitEdge{since: w.WaitingSince, from: w.ID(), expected: w.Expected}
		if w.Lock != nil {
			step.Key, step.Database = w.Lock.Key, w.Lock.Database
			edge.permit = w.Expected && w.Lock.Kind == kindSemaphore
			edge.candidate = w.Expected && !edge.permit
		} else {
			step.Key, step.Database = w.Other.String(), w.Other.Database
		}
		for _, b := range w.BlockedBy {
			edge.Step, edge.next = step, b.ID()
			edge.BlockedBy, edge.Kind = b.PID, b.Kind
			switch {
			case w.Lease == nil:
				sessions = append(sessions, edge)
			case !w.Expected:
				edge.Process = w.Lease.Holder
				rows = append(rows, edge)
			}
		}
	}
	return sessions, rows
}

// joinProcesses adds waits that the server cannot see: the task that holds a lock on one session of a process can wait
// for another lock on another session. A session that is only ahead in a queue waits for nothing else. A candidate holds
// nothing meanwhile: two processes that each lead one job, and stand for the other's, do not wait for each other. A permit can
// be held by a task that waits, but two waits for permits in a row are normal work too. Any permit will do, so the holders of all
// must wait.
func joinProcesses(waits []waitEdge, s *Snapshot) []waitEdge {
	processes := map[SessionID]origin{}
	for session := range s.Sessions() {
		if session.Process != "" {
			processes[session.ID()] = session.origin()
		}
	}
	waiting, expected := map[origin][]SessionID{}, map[SessionID]bool{}
	for _, w := range waits {
		expected[w.from] = w.expected
		if of, ok := processes[w.from]; ok && !w.candidate && !slices.Contains(waiting[of], w.from) {
			waiting[of] = append(waiting[of], w.from)
		}
	}
	var all []waitEdge
	free := map[SessionID]bool{} // who waits for one of several permits, of which the holder of one does not wait
	for _, w := range waits {
		before := len(all)
		if calm, waits := expected[w.next]; waits && !(w.permit && calm) {
			all = append(all, w)
		}
		joined := w
		for _, joined.next = range waiting[processes[w.next]] {
			if w.Kind == blockHard && joined.next != w.from && joined.next != w.next && !(w.expected && expected[joined.next]) {
				all = append(all, joined)
			}
		}
		if w.permit && len(all) == before {
			free[w.from] = true
		}
	}
	return slices.DeleteFunc(all, func(w waitEdge) bool { return free[w.from] })
}

// findCycles returns, for each session that is in a cycle but in none of those found before, one of its shortest
// cycles.
func findCycles(waits []waitEdge) [][]waitEdge {
	g := newCycleGraph(waits)
	g.prune()
	var found [][]waitEdge
	seen := map[SessionID]bool{}
	for _, start := range g.sessions {
		if g.waits[start] == 0 || seen[start] {
			continue
		}
		cycle := g.shortest(start)
		for _, w := range cycle {
			seen[w.from] = true
		}
		if len(cycle) > 0 {
			found = append(found, cycle)
		}
	}
	return found
}

// cycleGraph is a graph in which cycles are looked for.
type cycleGraph struct {
	sessions []SessionID // those that wait
	outgoing map[SessionID][]waitEdge
	incoming map[SessionID][]SessionID
	waits    map[SessionID]int // how many waits of a session are left
}

func newCycleGraph(waits []waitEdge) *cycleGraph {
	g := &cycleGraph{outgoing: map[SessionID][]waitEdge{}, incoming: map[SessionID][]SessionID{}, waits: map[SessionID]int{}}
	for _, w := range waits {
		if g.waits[w.from] == 0 {
			g.sessions = append(g.sessions, w.from)
		}
		g.outgoing[w.from] = append(g.outgoing[w.from], w)
		g.incoming[w.next] = append(g.incoming[w.next], w.from)
		g.waits[w.from]++
	}
	return g
}

// prune removes the sessions that are not in or behind a cycle. That is nearly always all of them.
func (g *cycleGraph) prune() {
	var free []SessionID
	for session := range g.incoming {
		if g.waits[session] == 0 {
			free = append(free, session)
		}
	}
	for len(free) > 0 {
		last := free[len(free)-1]
		free = free[:len(free)-1]
		for _, session := range g.incoming[last] {
			if g.waits[session]--; g.waits[session] == 0 {
				free = append(free, session)
			}
		}
	}
}

// shortest returns a shortest path from start back to start, or nil if start only waits for a cycle of others.
func (g *cycleGraph) shortest(start SessionID) []waitEdge {
	cameBy := map[SessionID]waitEdge{}
	for next := []SessionID{start}; len(next) > 0; next = next[1:] {
		for _, w := range g.outgoing[next[0]] {
			if _, seen := cameBy[w.next]; seen || g.waits[w.next] == 0 {
				continue
			}
			cameBy[w.next] = w
			if w.next == start {
				return pathFrom(start, cameBy)
			}
			next = append(next, w.next)
		}
	}
	return nil
}

// pathFrom follows the waits back from start to start.
func pathFrom(start SessionID, cameBy map[SessionID]waitEdge) []waitEdge {
	var reversed []waitEdge
	for at := start; ; {
		w := cameBy[at]
		reversed = append(reversed, w)
		if at = w.from; at == start {
			slices.Reverse(reversed)
			return reversed
		}
	}
}

func newCycle(waits []waitEdge, certain bool) Cycle {
	first := 0
	for i, w := range waits {
		if w.from.compare(waits[first].from) < 0 {
			first = i
		}
	}
	c := Cycle{Certain: certain, Since: waits[0].since}
	for _, w := range append(slices.Clone(waits[first:]), waits[:first]...) {
		c.Steps = append(c.Steps, w.Step)
		if c.Since != nil && (w.since == nil || w.since.After(*c.Since)) {
			c.Since = w.since
		}
	}
	return c
}
