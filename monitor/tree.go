package monitor

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Tree is the blocking tree of a snapshot ([Snapshot.Tree]), for all locks. It has each waiter and each blocker
// once, below the blocker that it is shown to wait for: sessions, and processes that use locks in rows. All views of
// pglock monitor draw this tree, so they agree.
//
// A session can have several blockers: holders of the lock or, if none of them conflicts, waiters ahead in the queue.
// The tree shows one of them: a member of the same deadlock, else a holder of the lock, else the blocker of the longest
// wait (a session with parallel workers can have several waits), else the one with the smallest process ID.
//
// A process, unlike a session, can release one lock in a row while it waits for another. So a cycle of processes
// need not be a deadlock, and [Node.Certain] is not set.
type Tree struct {
	// Roots are the sessions that wait for no other one, and one of each cycle, that with the smallest process ID.
	// Certain deadlocks come first, then the roots with the most sessions behind them. Last come those that only block
	// expected waits.
	Roots []*Node

	snapshot *Snapshot
	graph    *waitGraph
	nodes    []*Node
	cyclic   map[[2]int32]bool // the waits that are part of a certain cycle: who waits, and for whom
}

// Node is a session, prepared transaction or process in a [Tree].
type Node struct {
	// Session is nearly empty, with "user" among the hidden fields, if it began or ended while the snapshot was taken.
	*Session
	// Wait is the wait that is shown. It is nil if the session does not wait.
	Wait *Wait
	// Blocker is the blocker of Wait that the tree shows, and Kind says why it blocks. Blocker is nil if the session
	// does not wait, or if it is unknown for whom.
	Blocker *Node
	Kind    string
	// ClosesCycle says that the session is the root of a cycle: Blocker is itself below it.
	ClosesCycle bool
	// Children are the sessions that are shown to wait for this one, the longest wait first.
	Children []*Node
	// Behind is the number of sessions that wait for this one transitively, for any lock, here or elsewhere in the
	// tree. Each counts once. A session does not count itself, nor one that it merely precedes in a queue for what a
	// third one holds.
	Behind int
	// Longest is the longest wait of this session and those behind it. It is 0 if they have only just begun or their
	// times are unknown, and negative if none of them waits.
	Longest time.Duration
	// Deadlock says that the session is part of one of the snapshot's cycles, and Certain that one of these is certain.
	Deadlock, Certain bool

	number     int
	urgent     bool           // it waits, or one behind it does, and that is not expected
	waiting    map[string]int // by lock that it holds: how many wait because of it
	held, mode string         // the one for which most do
}

// Tree returns the blocking tree of the snapshot.
func (s *Snapshot) Tree() *Tree {
	g := newWaitGraph(s)
	t := &Tree{snapshot: s, graph: g, nodes: make([]*Node, len(g.ids)), cyclic: map[[2]int32]bool{}}
	for i, id := range g.ids {
		missing := &Session{PID: id.PID, GID: id.GID, Hidden: []string{"user"}}
		t.nodes[i] = &Node{Session: missing, number: i}
		t.nodes[i].Behind, t.nodes[i].Longest, t.nodes[i].urgent = g.behind(i)
	}
	t.findSessions()
	t.markDeadlocks()
	t.chooseBlockers()
	t.cutCycles()
	t.link()
	return t
}

// Node returns the node of a session, or nil if it neither waits nor blocks others.
func (t *Tree) Node(id SessionID) *Node {
	if n, known := t.graph.numbers[id]; known {
		return t.nodes[n]
	}
	return nil
}

// Parent returns the session above this one, or nil for a root.
func (n *Node) Parent() *Node {
	if n.ClosesCycle {
		return nil
	}
	return n.Blocker
}

// Held returns the session's most wanted lock, as [Wait.Label] writes it, and the mode in which it is held. Waiters
// that are shown below another holder of a shared lock count too. It is false if none waits for such a lock.
func (n *Node) Held() (label string, mode string, ok bool) { return n.held, n.mode, n.held != "" }

// block notes that a session waits for a lock that n holds.
func (n *Node) block(w Wait, label string, b Blocker) {
	if n.waiting == nil {
		n.waiting = map[string]int{}
	}
	if n.waiting[label]++; n.waiting[label] > n.waiting[n.held] {
		if n.held, n.mode = label, b.Mode; w.Lock != nil {
			n.mode = conflictingMode(w.Lock.Holders, b.ID(), w.Mode)
		}
	}
}

// All returns an iterator over the tree from top to bottom, with the depth of each session.
func (t *Tree) All() iter.Seq2[int, *Node] {
	type place struct {
		node  *Node
		depth int
	}
	return func(yield func(int, *Node) bool) {
		var todo []place // not recursive, since chains can be long
		for _, root := range t.Roots {
			for todo = append(todo, place{root, 0}); len(todo) > 0; {
				at := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				if !yield(at.depth, at.node) {
					return
				}
				for _, child := range slices.Backward(at.node.Children) {
					todo = append(todo, place{child, at.depth + 1})
				}
			}
		}
	}
}

// Blockers returns the blockers of a wait of the snapshot, in the order of preference that [Tree] describes.
func (t *Tree) Blockers(w Waiter) []Blocker {
	edges := make([]edge, len(w.BlockedBy))
	for i, b := range w.BlockedBy {
		edges[i] = t.edge(t.Node(w.ID()), Wait{Waiter: &w}, b)
	}
	slices.SortFunc(edges, edge.compare)
	blockers := make([]Blocker, len(edges))
	for i, e := range edges {
		blockers[i] = e.Blocker
	}
	return blockers
}

// edge is a wait of a session for one of its blockers.
type edge struct {
	Blocker
	wait    Wait
	node    *Node // of the blocker
	inCycle bool
}

func (t *Tree) edge(waiter *Node, wait Wait, b Blocker) edge {
	return edge{b, wait, t.Node(b.ID()), waiter != nil && t.cyclic[[2]int32{waiter.PID, b.PID}]}
}

// compare orders the edges of one session by preference.
func (e edge) compare(other edge) int {
	return cmp.Or(compareBool(!e.inCycle, !other.inCycle), compareBool(e.Kind != blockHard, other.Kind != blockHard),
		compareSince(e.wait.WaitingSince, other.wait.WaitingSince), e.ID().compare(other.ID()))
}

// findSessions fills in the sessions of the nodes.
func (t *Tree) findSessions() {
	note := func(s *Session) {
		if n := t.Node(s.ID()); n != nil {
			n.Session = s
		}
	}
	s := t.snapshot
	for i := range s.OtherSessions {
		note(&s.OtherSessions[i])
	}
	for i := range s.Locks {
		for j := range s.Locks[i].Holders {
			note(&s.Locks[i].Holders[j].Session)
		}
	}
	for wait := range s.Waits() {
		note(&wait.Session)
	}
}

// chooseBlockers fills in which wait of each session is shown, and which blocker.
func (t *Tree) chooseBlockers() {
	chosen, edges := make([]edge, len(t.nodes)), t.graph.edges // chosen is by session
	for wait := range t.snapshot.Waits() {
		label := wait.Label()
		n, near := t.nodes[edges[0]], wait.BlockedBy
		best := &chosen[n.number]
		for i, b := range near {
			if e := (edge{b, wait, t.nodes[edges[1+i]], t.cyclic[[2]int32{n.PID, b.PID}]}); best.node == nil || e.compare(*best) < 0 {
				*best = e
			}
			if b.Kind == blockHard {
				t.nodes[edges[1+i]].block(wait, label, b)
			}
		}
		edges = edges[1+len(near):]
		if n.Wait == nil || compareSince(wait.WaitingSince, n.Wait.WaitingSince) < 0 {
			n.Wait = &wait // if it is unknown which sessions block it
		}
	}
	for i, n := range t.nodes {
		if e := &chosen[i]; e.node != nil {
			n.Wait, n.Blocker, n.Kind = &e.wait, e.node, e.Kind
		}
	}
}

// cutCycles makes one session of each cycle of shown blockers a root. Every session has at most one shown blocker, so
// no two of these cycles share a session.
func (t *Tree) cutCycles() {
	walks := make([]int, len(t.nodes)) // by session: the first walk that came by, from 1
	for i, n := range t.nodes {
		for n != nil && walks[n.number] == 0 {
			walks[n.number] = i + 1
			n = n.Blocker
		}
		if n == nil || walks[n.number] != i+1 {
			continue
		}
		root := n // the walk has come back to n
		for next := n.Blocker; next != n; next = next.Blocker {
			if next.ID().compare(root.ID()) < 0 {
				root = next
			}
		}
		root.ClosesCycle = true
	}
}

func (t *Tree) markDeadlocks() {
	for _, cycle := range t.snapshot.Cycles {
		for _, step := range cycle.Steps {
			if n := t.Node(step.ID()); n != nil {
				n.Deadlock, n.Certain = true, n.Certain || cycle.Certain
				t.cyclic[[2]int32{step.PID, step.BlockedBy}] = cycle.Certain || t.cyclic[[2]int32{step.PID, step.BlockedBy}]
			}
		}
	}
}

// link fills in the children and the roots.
func (t *Tree) link() {
	for _, n := range t.nodes {
		if n == nil {
			continue
		}
		if parent := n.Parent(); parent != nil {
			parent.Children = append(parent.Children, n)
		} else {
			t.Roots = append(t.Roots, n)
		}
	}
	slices.SortFunc(t.Roots, func(a, b *Node) int {
		return cmp.Or(compareBool(!a.Certain, !b.Certain), compareBool(!a.urgent, !b.urgent), cmp.Compare(b.Behind, a.Behind), a.ID().compare(b.ID()))
	})
	for _, n := range t.nodes {
		if n == nil {
			continue
		}
		slices.SortFunc(n.Children, func(a, b *Node) int {
			return cmp.Or(compareSince(a.Wait.WaitingSince, b.Wait.WaitingSince), a.ID().compare(b.ID()))
		})
	}
}

// Of returns the part of the tree that concerns the selected locks and waits: their holders and waiters, the sessions
// behind these that wait for locks of other types, and all blockers of these sessions, direct or not. What the nodes
// say, such as Behind, is still about the whole snapshot. showsOther may be nil, for none.
func (t *Tree) Of(shows func(*Lock) bool, showsOther func(*OtherWait) bool) *Tree {
	part := &Tree{snapshot: t.snapshot, graph: t.graph, nodes: make([]*Node, len(t.nodes))}
	for _, n := range t.above(t.behind(t.concerned(shows, showsOther))) {
		one := *n
		one.Children = nil
		part.nodes[n.number] = &one
	}
	for _, n := range part.nodes {
		if n != nil && n.Blocker != nil {
			n.Blocker = part.nodes[n.Blocker.number]
		}
	}
	part.link()
	return part
}

// nodeSet is a list of nodes, each once.
type nodeSet struct {
	list []*Node
	has  []bool
}

func (s *nodeSet) add(n *Node) {
	if n != nil && !s.has[n.number] {
		s.has[n.number] = true
		s.list = append(s.list, n)
	}
}

// concerned returns the holders and waiters of some locks, and the sessions of some other waits.
func (t *Tree) concerned(shows func(*Lock) bool, showsOther func(*OtherWait) bool) *nodeSet {
	found := &nodeSet{has: make([]bool, len(t.nodes))}
	for i := range t.snapshot.Locks {
		lock := &t.snapshot.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Holders {
			found.add(t.Node(lock.Holders[j].ID()))
		}
		for j := range lock.Waiters {
			found.add(t.Node(lock.Waiters[j].ID()))
		}
	}
	for i := range t.snapshot.OtherWaits {
		if wait := &t.snapshot.OtherWaits[i]; showsOther != nil && showsOther(wait) {
			found.add(t.Node(wait.ID()))
		}
	}
	return found
}

// behind adds the sessions that wait for these, directly or through others, for locks that are not advisory locks.
func (t *Tree) behind(found *nodeSet) *nodeSet {
	waiting := make([][]*Node, len(t.nodes))
	for _, wait := range t.snapshot.OtherWaits {
		for _, b := range wait.BlockedBy {
			at := t.graph.numbers[b.ID()]
			waiting[at] = append(waiting[at], t.Node(wait.ID()))
		}
	}
	for i := 0; i < len(found.list); i++ { // the list grows
		for _, waiter := range waiting[found.list[i].number] {
			found.add(waiter)
		}
	}
	return found
}

// above returns these sessions and those that they wait for, directly or through others.
func (t *Tree) above(found *nodeSet) []*Node {
	blockers := make([][]Blocker, len(t.nodes))
	for wait := range t.snapshot.Waits() {
		at := t.graph.numbers[wait.ID()]
		blockers[at] = append(blockers[at], wait.BlockedBy...)
	}
	for i := 0; i < len(found.list); i++ { // the list grows
		for _, b := range blockers[found.list[i].number] {
			found.add(t.Node(b.ID()))
		}
	}
	return found.list
}
