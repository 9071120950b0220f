package monitor

import (
	"slices"
	"time"
)

// Cycle is a deadlock in the making: sessions of which each waits for the next, and the last for the first.
type Cycle struct {
	// Certain says that each session itself waits for the next: none of them will go on by itself, and PostgreSQL ends
	// one of the waits after deadlock_timeout. Otherwise the cycle goes through several sessions of a process that uses
	// pglock, which PostgreSQL takes for unrelated. It is a deadlock then if the same task of that process holds the one
	// lock and waits for the other, which only the process knows. If it is, nobody ends it; if not, it passes.
	Certain bool `json:"certain"`
	// Since is when the last of the waits began: the cycle is no older. It is nil when the time of a wait is not known.
	Since *time.Time `json:"since"`
	// Steps are the waits, beginning with the session that has the smallest process ID.
	Steps []Step `json:"steps"`
}

// Step is a wait that is part of a [Cycle].
type Step struct {
	// PID is who waits, and Process its process ([Session.Process]).
	PID     int32  `json:"pid"`
	Process string `json:"process"`
	// Key and Database are the lock that it waits for, as in [Lock].
	Key      string `json:"key"`
	Database string `json:"database"`
	// BlockedBy is the session in the way: the one that waits in the next step, or another one of the same process.
	BlockedBy int32 `json:"blocked_by"`
	// Kind says why it is in the way.
	Kind BlockKind `json:"kind"`
}

// cycles finds the cycles of the wait graph. Where many go through the same sessions it names a shortest one: who ends
// that will see the next.
func cycles(locks []Lock) []Cycle {
	all := []Cycle{}
	waits := waitsOf(locks)
	certain := map[int32]bool{} // sessions
	for _, found := range findCycles(waits, func(pid int32, _ string) node { return node{pid: pid} }) {
		all = append(all, newCycle(found, true))
		for _, w := range found {
			certain[w.PID] = true
		}
	}
	for _, found := range findCycles(waits, joined) {
		if !slices.ContainsFunc(found, func(w wait) bool { return certain[w.PID] }) {
			all = append(all, newCycle(found, false))
		}
	}
	return all
}

// wait is an edge of the wait graph.
type wait struct {
	Step
	blockerProcess string
	since          *time.Time
}

func waitsOf(locks []Lock) []wait {
	processes := map[int32]string{}
	for _, lock := range locks {
		for _, holder := range lock.Holders {
			processes[holder.PID] = holder.Process
		}
		for _, waiter := range lock.Waiters {
			processes[waiter.PID] = waiter.Process
		}
	}
	var all []wait
	for _, lock := range locks {
		for _, waiter := range lock.Waiters {
			for _, blocker := range waiter.BlockedBy {
				all = append(all, wait{Step: Step{
					PID: waiter.PID, Process: waiter.Process, Key: lock.Key, Database: lock.Database,
					BlockedBy: blocker.PID, Kind: blocker.Kind,
				}, blockerProcess: processes[blocker.PID], since: waiter.WaitingSince})
			}
		}
	}
	return all
}

// node is a session, or all sessions of a process.
type node struct {
	pid     int32
	process string
}

// joined makes one node of the sessions of a process. A process that waits for itself is none: its tasks wait for each
// other then, and one of them works.
func joined(pid int32, process string) node {
	if process == "" {
		return node{pid: pid}
	}
	return node{process: process}
}

// findCycles returns cycles of which no two begin with the same node.
func findCycles(waits []wait, nodeOf func(pid int32, process string) node) [][]wait {
	g := newGraph(waits, nodeOf)
	g.prune()
	var found [][]wait
	seen := map[node]bool{}
	for _, start := range g.nodes {
		if g.degree[start] == 0 || seen[start] {
			continue
		}
		cycle := g.shortest(start)
		for _, w := range cycle {
			seen[nodeOf(w.PID, w.Process)] = true
		}
		if len(cycle) > 0 {
			found = append(found, cycle)
		}
	}
	return found
}

// graph has the waits between different nodes.
type graph struct {
	nodes    []node // those that wait, in the order of the waits
	nodeOf   func(pid int32, process string) node
	outgoing map[node][]wait
	incoming map[node][]node
	degree   map[node]int // how many waits of a node are left
}

func newGraph(waits []wait, nodeOf func(pid int32, process string) node) *graph {
	g := &graph{nodeOf: nodeOf, outgoing: map[node][]wait{}, incoming: map[node][]node{}, degree: map[node]int{}}
	for _, w := range waits {
		from, to := g.ends(w)
		if from == to {
			continue
		}
		if g.degree[from] == 0 {
			g.nodes = append(g.nodes, from)
		}
		g.outgoing[from] = append(g.outgoing[from], w)
		g.incoming[to] = append(g.incoming[to], from)
		g.degree[from]++
	}
	return g
}

func (g *graph) ends(w wait) (from, to node) {
	return g.nodeOf(w.PID, w.Process), g.nodeOf(w.BlockedBy, w.blockerProcess)
}

// prune removes everybody who will go on when those go on who do not wait. Nearly always that is everybody.
func (g *graph) prune() {
	var free []node
	for to := range g.incoming {
		if g.degree[to] == 0 {
			free = append(free, to)
		}
	}
	for len(free) > 0 {
		last := free[len(free)-1]
		free = free[:len(free)-1]
		for _, waiting := range g.incoming[last] {
			if g.degree[waiting]--; g.degree[waiting] == 0 {
				free = append(free, waiting)
			}
		}
	}
}

// shortest returns a shortest way from start back to it; none when start only waits for a cycle of others.
func (g *graph) shortest(start node) []wait {
	cameBy := map[node]wait{}
	for next := []node{start}; len(next) > 0; next = next[1:] {
		for _, w := range g.outgoing[next[0]] {
			_, to := g.ends(w)
			if _, seen := cameBy[to]; seen || g.degree[to] == 0 {
				continue
			}
			cameBy[to] = w
			if to == start {
				return g.way(start, cameBy)
			}
			next = append(next, to)
		}
	}
	return nil
}

// way follows the waits back from start to start.
func (g *graph) way(start node, cameBy map[node]wait) []wait {
	var reversed []wait
	for at := start; ; {
		w := cameBy[at]
		reversed = append(reversed, w)
		if at, _ = g.ends(w); at == start {
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
