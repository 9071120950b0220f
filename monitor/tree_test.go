package monitor_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// checkTree compares the tree of a snapshot with its waits.
func checkTree(t testing.TB, s *monitor.Snapshot) {
	t.Helper()
	tree := s.Tree()
	waits, blocks := map[monitor.SessionID][]monitor.Wait{}, map[monitor.SessionID]bool{}
	for wait := range s.Waits() {
		waits[wait.ID()] = append(waits[wait.ID()], wait)
		for _, b := range wait.BlockedBy {
			blocks[b.ID()] = true
		}
	}
	seen, path := map[monitor.SessionID]bool{}, []*monitor.Node{}
	for depth, n := range tree.All() {
		id := n.ID()
		path = append(path[:depth], n)
		switch {
		case seen[id]:
			t.Errorf("%v is twice in the tree", id)
		case waits[id] == nil && !blocks[id]:
			t.Errorf("%v neither waits nor blocks others", id)
		case depth == 0 && n.Parent() != nil, depth > 0 && (n.Parent() != path[depth-1] || n.Blocker != path[depth-1] || n.ClosesCycle):
			t.Errorf("%v is in another place than its parent says", id)
		case n.Behind != behindOf(s, id):
			t.Errorf("%d are behind %v, want %d", n.Behind, id, behindOf(s, id))
		case tree.Node(id) != n:
			t.Errorf("%v is not found", id)
		}
		checkEdge(t, s, tree, n, waits[id])
		if !slices.IsSortedFunc(n.Children, func(a, b *monitor.Node) int {
			return cmp.Or(cmp.Compare(since(*a.Wait), since(*b.Wait)), a.ID().Compare(b.ID()))
		}) {
			t.Errorf("the children of %v are not sorted by the length of their waits", id)
		}
		seen[id] = true
	}
	for id := range waits {
		blocks[id] = true
	}
	if len(seen) != len(blocks) {
		t.Errorf("the tree has %d sessions, want %d", len(seen), len(blocks))
	}
	checkCycles(t, s, tree)
}

// checkEdge compares the wait that is shown with all waits of a session.
func checkEdge(t testing.TB, s *monitor.Snapshot, tree *monitor.Tree, n *monitor.Node, waits []monitor.Wait) {
	t.Helper()
	if (n.Wait == nil) != (len(waits) == 0) {
		t.Errorf("%v is shown with the wait %v of %d", n.ID(), n.Wait, len(waits))
		return
	}
	best, kind, cyclic := "", string(""), false
	for _, wait := range waits {
		for _, b := range wait.BlockedBy {
			inCycle := inCertainCycle(s, n.PID, b.PID)
			rank := fmt.Sprint(!inCycle, b.Kind != "hard", wait.WaitingSince == nil) + since(wait) + fmt.Sprintf("%08d", b.PID) + b.GID
			if best == "" || rank < best {
				best, kind, cyclic = rank, b.Kind, inCycle
			}
			if n.Blocker != nil && n.Blocker.ID() == b.ID() && n.Wait.Waiter == wait.Waiter && tree.Blockers(*wait.Waiter)[0] != b {
				t.Errorf("%v is below %v, but its first blocker is %v", n.ID(), b, tree.Blockers(*wait.Waiter)[0])
			}
		}
	}
	if best == "" {
		if n.Blocker != nil || n.Wait != nil && slices.ContainsFunc(waits, func(w monitor.Wait) bool { return since(w) < since(*n.Wait) }) {
			t.Errorf("%v, whose blockers are unknown, is shown with %v", n.ID(), n.Wait)
		}
		return
	}
	if n.Blocker == nil || n.Kind != kind {
		t.Errorf("%v is shown with a %s wait for %v, want a %s one", n.ID(), n.Kind, n.Blocker, kind)
		return
	}
	id := n.Blocker.ID()
	if got := fmt.Sprint(!cyclic, n.Kind != "hard", n.Wait.WaitingSince == nil) + since(*n.Wait) + fmt.Sprintf("%08d", id.PID) + id.GID; got != best {
		t.Errorf("%v is shown with %s, want %s", n.ID(), got, best)
	}
}

func since(w monitor.Wait) string {
	if w.WaitingSince == nil {
		return "~" // after all times
	}
	return w.WaitingSince.UTC().Format("2006-01-02T15:04:05.000000000")
}

// inCertainCycle reports whether a wait is a step of a certain deadlock.
func inCertainCycle(s *monitor.Snapshot, waiter, blocker int32) bool {
	return slices.ContainsFunc(s.Cycles, func(c monitor.Cycle) bool {
		return c.Certain && slices.ContainsFunc(c.Steps, func(step monitor.Step) bool { return step.PID == waiter && step.BlockedBy == blocker })
	})
}

// checkCycles checks that each certain deadlock is closed, once, at the top of a tree.
func checkCycles(t testing.TB, s *monitor.Snapshot, tree *monitor.Tree) {
	t.Helper()
	for _, cycle := range s.Cycles {
		for _, step := range cycle.Steps {
			n := tree.Node(monitor.SessionID{PID: step.PID})
			if !n.Deadlock || cycle.Certain && !n.Certain {
				t.Errorf("%d is not marked as part of a deadlock", step.PID)
			}
			root := n
			for root.Parent() != nil {
				root = root.Parent()
			}
			if cycle.Certain && (!root.ClosesCycle || !root.Certain) {
				t.Errorf("%d is part of a deadlock, but below %v, which is not", step.PID, root.ID())
			}
		}
	}
	for i, root := range tree.Roots[min(1, len(tree.Roots)):] {
		if before := tree.Roots[i]; !before.Certain && (root.Certain || root.Behind > before.Behind) {
			t.Errorf("%v, with %d behind it, comes before %v, with %d", before.ID(), before.Behind, root.ID(), root.Behind)
		}
	}
	for _, root := range tree.Roots {
		if !root.ClosesCycle {
			continue
		}
		on := root.Blocker
		for on.Parent() != nil {
			if on.ID().Compare(root.ID()) < 0 {
				t.Errorf("the root of a cycle is %v, although %v is smaller", root.ID(), on.ID())
			}
			on = on.Parent()
		}
		if on != root {
			t.Errorf("%v closes a cycle, but waits for a session below %v", root.ID(), on.ID())
		}
	}
}

// randomWaits returns a snapshot with a few sessions that wait for each other for locks of both kinds.
func randomWaits(r *rand.Rand) *monitor.Snapshot {
	taken := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s := &monitor.Snapshot{TakenAt: taken}
	sessions := 2 + r.IntN(7)
	for i := range 1 + r.IntN(10) {
		waiter := monitor.Waiter{Session: monitor.Session{PID: int32(1 + r.IntN(sessions))}}
		if r.IntN(5) > 0 {
			at := taken.Add(-time.Duration(r.IntN(4)) * time.Second)
			waiter.WaitingSince = &at
		}
		for pid := range int32(sessions + 1) {
			b := monitor.Blocker{PID: pid, Kind: []string{"hard", "soft"}[r.IntN(2)]}
			if pid == 0 {
				b.GID, b.Kind = "prepared", "hard"
			}
			if pid != waiter.PID && r.IntN(3) == 0 {
				waiter.BlockedBy = append(waiter.BlockedBy, b)
			}
		}
		if r.IntN(2) == 0 {
			s.Locks = append(s.Locks, monitor.Lock{Key: fmt.Sprint("@", i), Number: int64(i), Waiters: []monitor.Waiter{waiter}})
		} else {
			s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Relation: uint32(i)}, Waiter: waiter})
		}
	}
	return s
}

func TestLongTreeOfRandomWaits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		s := randomWaits(rand.New(rand.NewPCG(seed, 1)))
		s.FindCycles()
		checkTree(t, s)
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// The part of a tree has what its sessions wait for, at the same places.
func TestTreeOfSomeLocks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		s := randomWaits(rand.New(rand.NewPCG(seed, 2)))
		whole := s.Tree()
		part := whole.Of(func(lock *monitor.Lock) bool { return lock.Number%2 == 0 }, func(wait *monitor.OtherWait) bool { return wait.PID%3 == 0 })
		for _, n := range part.All() {
			same := whole.Node(n.ID())
			if n == same || n.Behind != same.Behind || n.Wait != same.Wait || (n.Blocker == nil) != (same.Blocker == nil) ||
				n.Blocker != nil && (n.Blocker.ID() != same.Blocker.ID() || n.Blocker != part.Node(n.Blocker.ID())) {
				t.Fatalf("seed %d: %+v is %+v in the whole tree", seed, n, same)
			}
			if n.Wait != nil && slices.ContainsFunc(n.Wait.BlockedBy, func(b monitor.Blocker) bool { return part.Node(b.ID()) == nil }) {
				t.Fatalf("seed %d: a blocker of %v is missing", seed, n.ID())
			}
		}
		for _, lock := range s.Locks {
			if n := part.Node(lock.Waiters[0].ID()); n == nil && lock.Number%2 == 0 {
				t.Fatalf("seed %d: %v is missing", seed, lock.Waiters[0].ID())
			}
		}
		for _, wait := range s.OtherWaits {
			if slices.ContainsFunc(wait.BlockedBy, func(b monitor.Blocker) bool { return waitsForEven(s, b) }) && part.Node(wait.ID()) == nil {
				t.Fatalf("seed %d: %v, which waits behind a shown session, is missing", seed, wait.ID())
			}
			if wait.PID%3 == 0 && part.Node(wait.ID()) == nil {
				t.Fatalf("seed %d: %v, whose wait is shown, is missing", seed, wait.ID())
			}
		}
		if none := whole.Of(func(*monitor.Lock) bool { return false }, nil); len(none.Roots) > 0 {
			t.Fatalf("seed %d: the tree of no lock has %d roots", seed, len(none.Roots))
		}
	}
}

func waitsForEven(s *monitor.Snapshot, b monitor.Blocker) bool {
	return slices.ContainsFunc(s.Locks, func(l monitor.Lock) bool { return l.Number%2 == 0 && l.Waiters[0].ID() == b.ID() })
}

func TestTreeWithoutWaitsIsEmpty(t *testing.T) {
	t.Parallel()
	s := &monitor.Snapshot{Locks: []monitor.Lock{{Holders: []monitor.Holder{{Session: monitor.Session{PID: 1}}}}}}
	if tree := s.Tree(); len(tree.Roots) > 0 || tree.Node(monitor.SessionID{PID: 1}) != nil {
		t.Errorf("the tree has %+v", tree.Roots)
	}
}

// Every session waits for the one before, and the first for the last.
func TestTreeOfALongCycle(t *testing.T) {
	t.Parallel()
	const sessions = 800
	s := &monitor.Snapshot{}
	for pid := int32(1); pid <= sessions; pid++ {
		s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Waiter: monitor.Waiter{Session: monitor.Session{PID: pid},
			BlockedBy: []monitor.Blocker{{PID: (pid+sessions-2)%sessions + 1, Kind: "hard"}}}})
	}
	depth, tree := 0, s.Tree()
	for at, n := range tree.All() {
		if depth = at; n.PID != int32(at+1) || n.Behind != sessions-1 {
			t.Fatalf("at depth %d there is %+v", at, n)
		}
	}
	if depth != sessions-1 || len(tree.Roots) != 1 || !tree.Roots[0].ClosesCycle {
		t.Errorf("a depth of %d, %d roots", depth, len(tree.Roots))
	}
}
