package web

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// forest grows the blocking tree of some locks.
type forest struct {
	nodes  map[monitor.SessionID]*node
	parent map[monitor.SessionID]monitor.SessionID
	dead   map[int32]bool
}

// tree puts each waiter below the first session that it waits for, a holder rather than another waiter. The roots are those
// that wait for none of them; of a deadlock it is the session with the smallest process ID.
func tree(s *monitor.Snapshot, locks []*monitor.Lock) []*node {
	f := &forest{nodes: map[monitor.SessionID]*node{}, parent: map[monitor.SessionID]monitor.SessionID{}, dead: map[int32]bool{}}
	for _, cycle := range s.Cycles {
		for _, step := range cycle.Steps {
			f.dead[step.PID] = true
		}
	}
	for _, lock := range locks {
		if len(lock.Waiters) > 0 {
			f.plant(lock)
		}
	}
	return f.roots()
}

func (f *forest) plant(lock *monitor.Lock) {
	for i := range lock.Holders {
		h := &lock.Holders[i]
		n := f.node(&h.Session)
		if n.SeenSince == nil {
			n.party = holderOf(h)
		}
	}
	for i := range lock.Waiters {
		w := &lock.Waiters[i]
		id := w.ID()
		n := f.node(&w.Session)
		n.WaitsFor, n.Since, n.Mode = lock.Key, w.WaitingSince, string(w.Mode)
		blockers := slices.Clone(w.BlockedBy)
		slices.SortStableFunc(blockers, func(a, b monitor.Blocker) int { return cmp.Compare(a.Kind, b.Kind) }) // hard < soft
		if len(blockers) > 0 {
			f.parent[id] = blockers[0].ID()
			n.Soft = blockers[0].Kind == monitor.BlockSoft
		}
	}
}

func (f *forest) node(s *monitor.Session) *node {
	id := s.ID()
	if f.nodes[id] == nil {
		f.nodes[id] = &node{party: partyOf(s, ""), Blocks: []*node{}, Deadlock: f.dead[s.PID]}
	}
	return f.nodes[id]
}

// roots links the nodes, as many as an answer may have.
func (f *forest) roots() []*node {
	ids := make([]monitor.SessionID, 0, len(f.nodes))
	for id := range f.nodes {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, monitor.SessionID.Compare)
	parents := map[monitor.SessionID]bool{}
	for _, parent := range f.parent {
		parents[parent] = true
	}
	children, roots := map[monitor.SessionID][]monitor.SessionID{}, []monitor.SessionID{}
	for _, id := range ids {
		parent, waits := f.parent[id]
		switch {
		case waits && f.nodes[parent] != nil && !f.headsCycle(id):
			children[parent] = append(children[parent], id)
		case waits || f.nodes[id].WaitsFor != "" || parents[id]:
			roots = append(roots, id)
		}
	}
	left := mostNodes
	grown := []*node{}
	for _, id := range roots {
		if left > 0 {
			grown = append(grown, f.grow(id, children, &left, 0))
		}
	}
	return grown
}

// headsCycle reports whether the way up from a session leads back to it, and it has the smallest process ID on that way.
func (f *forest) headsCycle(id monitor.SessionID) bool {
	at, smallest := id, id.PID
	for range len(f.parent) {
		next, ok := f.parent[at]
		if !ok {
			return false
		}
		at, smallest = next, min(smallest, next.PID)
		if at == id {
			return smallest == id.PID
		}
	}
	return false
}

func (f *forest) grow(id monitor.SessionID, children map[monitor.SessionID][]monitor.SessionID, left *int, depth int) *node {
	*left--
	n := f.nodes[id]
	for _, child := range children[id] {
		if *left <= 0 || depth >= deepest {
			break
		}
		n.Blocks = append(n.Blocks, f.grow(child, children, left, depth+1))
	}
	return n
}
