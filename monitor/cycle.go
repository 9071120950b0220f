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
	// ends when a lock is released.
	Certain bool `json:"certain"`
	// Since is when the last of the waits began, so the cycle is no older. It is nil if the time of a wait is unknown.
	Since *time.Time `json:"since"`
	// Steps are the waits, starting with that of the session with the smallest process ID.
	Steps []Step `json:"steps"`
}

// String draws the cycle: "11 → 12 → 11".
func (c Cycle) String() string {
	var text strings.Builder
	for _, step := range c.Steps {
		fmt.Fprintf(&text, "%d → ", step.PID)
	}
	return text.String() + fmt.Sprint(c.Steps[0].PID)
}

// Step is a wait that is part of a [Cycle].
type Step struct {
	// PID is the session that waits, and Process its process ([Session.Process]).
	PID     int32  `json:"pid"`
	Process string `json:"process"`
	// Key and Database are those of the lock that it waits for, as in [Lock]. For a lock that is not an advisory lock,
	// Key is what [OtherLock.String] returns.
	Key      string `json:"key"`
	Database string `json:"database"`
	// BlockedBy is the session that blocks it: the session of the next step, or another one of the same process.
	BlockedBy int32 `json:"blocked_by"`
	// Kind says why BlockedBy blocks it.
	Kind string `json:"kind"`
}

// cycles returns cycles of the wait graph. It does not return all of them, since there can be very many, but every
// session that is part of a cycle is in at least one of them.
func cycles(locks []Lock, others []OtherWait) []Cycle {
	all := []Cycle{}
	waits := waitEdges(locks, others)
	certain := map[int32]bool{} // sessions
	for _, found := range findCycles(waits) {
		all = append(all, newCycle(found, true))
		for _, w := range found {
			certain[w.PID] = true
		}
	}
	for _, found := range findCycles(joinProcesses(waits, processes(locks))) {
		if !slices.ContainsFunc(found, func(w wait) bool { return certain[w.PID] }) {
			all = append(all, newCycle(found, false))
		}
	}
	return all
}

// wait is an edge of the wait graph.
type wait struct {
	Step
	since *time.Time
	// next is the session whose wait makes this one wait: the blocker or, in a joined graph, a session of its process.
	next int32
	// candidate says that it waits to be elected, or to run a job, and expected is that or another wait of normal work.
	candidate, expected bool
}

func waitEdges(locks []Lock, others []OtherWait) []wait {
	var all []wait
	for _, lock := range locks {
		for _, waiter := range lock.Waiters {
			for _, blocker := range waiter.BlockedBy.nearest() {
				all = append(all, wait{Step: Step{
					PID: waiter.PID, Process: waiter.Process, Key: lock.Key, Database: lock.Database,
					BlockedBy: blocker.PID, Kind: blocker.Kind,
				}, since: waiter.WaitingSince, next: blocker.PID, candidate: waiter.Expected && lock.Kind != kindSemaphore, expected: waiter.Expected})
			}
		}
	}
	for _, other := range others {
		for _, blocker := range other.BlockedBy.nearest() {
			all = append(all, wait{Step: Step{
				PID: other.PID, Process: other.Process, Key: other.Lock.String(), Database: other.Lock.Database,
				BlockedBy: blocker.PID, Kind: blocker.Kind,
			}, since: other.WaitingSince, next: blocker.PID})
		}
	}
	return all
}

// processes returns the origin of each session of a process.
func processes(locks []Lock) map[int32]origin {
	found := map[int32]origin{}
	note := func(s Session) {
		if s.Process != "" {
			found[s.PID] = s.origin()
		}
	}
	for _, lock := range locks {
		for _, holder := range lock.Holders {
			note(holder.Session)
		}
		for _, waiter := range lock.Waiters {
			note(waiter.Session)
		}
	}
	return found
}

// joinProcesses adds waits that the server cannot see: the task that holds a lock on one session of a process can wait
// for another lock on another session. A session that is only ahead in a queue waits for nothing else. A candidate holds
// nothing meanwhile: two processes that each lead one job, and stand for the other's, do not wait for each other. A permit can
// be held by a task that waits, but two waits for permits in a row are normal work too.
func joinProcesses(waits []wait, processes map[int32]origin) []wait {
	waiting, expected := map[origin][]int32{}, map[int32]bool{}
	for _, w := range waits {
		expected[w.PID] = w.expected
		if from, ok := processes[w.PID]; ok && !w.candidate && !slices.Contains(waiting[from], w.PID) {
			waiting[from] = append(waiting[from], w.PID)
		}
	}
	all := slices.Clone(waits)
	for _, w := range waits {
		if w.Kind != blockHard {
			continue
		}
		for _, pid := range waiting[processes[w.BlockedBy]] {
			if pid != w.PID && pid != w.BlockedBy && !(w.expected && expected[pid]) {
				w.next = pid
				all = append(all, w)
			}
		}
	}
	return all
}

// findCycles returns, for each session that is in a cycle but in none of those found before, one of its shortest
// cycles.
func findCycles(waits []wait) [][]wait {
	g := newGraph(waits)
	g.prune()
	var found [][]wait
	seen := map[int32]bool{}
	for _, start := range g.sessions {
		if g.waits[start] == 0 || seen[start] {
			continue
		}
		cycle := g.shortest(start)
		for _, w := range cycle {
			seen[w.PID] = true
		}
		if len(cycle) > 0 {
			found = append(found, cycle)
		}
	}
	return found
}

type graph struct {
	sessions []int32 // those that wait
	outgoing map[int32][]wait
	incoming map[int32][]int32
	waits    map[int32]int // how many waits of a session are left
}

func newGraph(waits []wait) *graph {
	g := &graph{outgoing: map[int32][]wait{}, incoming: map[int32][]int32{}, waits: map[int32]int{}}
	for _, w := range waits {
		if g.waits[w.PID] == 0 {
			g.sessions = append(g.sessions, w.PID)
		}
		g.outgoing[w.PID] = append(g.outgoing[w.PID], w)
		g.incoming[w.next] = append(g.incoming[w.next], w.PID)
		g.waits[w.PID]++
	}
	return g
}

// prune removes the sessions that are not in or behind a cycle. That is nearly always all of them.
func (g *graph) prune() {
	var free []int32
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
func (g *graph) shortest(start int32) []wait {
	cameBy := map[int32]wait{}
	for next := []int32{start}; len(next) > 0; next = next[1:] {
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
func pathFrom(start int32, cameBy map[int32]wait) []wait {
	var reversed []wait
	for at := start; ; {
		w := cameBy[at]
		reversed = append(reversed, w)
		if at = w.PID; at == start {
			slices.Reverse(reversed)
			return reversed
		}
	}
}

func newCycle(waits []wait, certain bool) Cycle {
	first := 0
	for i, w := range waits {
		if w.PID < waits[first].PID {
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
