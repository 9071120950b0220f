package web

import (
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/monitor"
)

func chain() *monitor.Snapshot {
	s := snapshot(noon)
	owner := monitor.Session{PID: 9, Application: "ddl-owner", State: "idle in transaction", Database: "shop"}
	s.Locks[0].Holders[0].State = "active"
	s.OtherWaits = []monitor.OtherWait{{Lock: monitor.OtherLock{Type: "relation", Relation: 1, Name: "t"},
		Waiter: monitor.Waiter{Mode: "shared", Session: s.Locks[0].Holders[0].Session,
			BlockedBy: []monitor.Blocker{{PID: 9, Kind: "hard"}}}}}
	s.OtherSessions = []monitor.Session{owner}
	return s
}

func TestPageTreeFollowsLocksOfAllKinds(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"", "invoice:1", hostile} {
		st := newState(Live{Snapshot: chain()}, Options{}, only)
		if st.Tree[0].PID != 9 || st.Tree[0].Behind != 3 || st.Tree[1].PID != 1 || st.Tree[1].Depth != 1 ||
			st.Tree[1].Wait.Lock.Label != "relation t" || st.Tree[1].Wait.Lock.Key != "" || st.Tree[1].Wait.PID != 9 ||
			st.Tree[1].Wait.Application != "ddl-owner" {
			t.Errorf("of %q the tree is %+v", only, st.Tree)
		}
		if k := st.Keys[0]; k.Key == "invoice:1" && (k.Blocked == nil || k.Blocked.PID != 9) {
			t.Errorf("of %q the key's holder is blocked by %+v", only, k.Blocked)
		}
	}
}

// A deadlock comes before a longer queue, together with the sessions behind it.
func TestPageTreeBeginsWithADeadlock(t *testing.T) {
	t.Parallel()
	s := snapshot(noon)
	hard := func(pid int32) []monitor.Blocker { return []monitor.Blocker{{PID: pid, Kind: "hard"}} }
	wait := func(pid, blocker int32) monitor.Waiter {
		return monitor.Waiter{Session: monitor.Session{PID: pid}, BlockedBy: hard(blocker)}
	}
	s.Locks = append(s.Locks, monitor.Lock{Key: "@3", Number: 3, Objsubid: 1,
		Waiters: []monitor.Waiter{wait(23, 22), wait(21, 22), wait(22, 21)}})
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 21}, {PID: 22}}}}
	for certain, want := range map[bool][]int32{true: {21, 22, 23, 1, 2, 3}, false: {1, 2, 3, 21, 22, 23}} {
		s.Cycles[0].Certain = certain
		var order []int32
		for _, n := range newState(Live{Snapshot: s}, Options{}, "").Tree {
			order = append(order, n.PID)
		}
		if !slices.Equal(order, want) {
			t.Errorf("with a deadlock that is certain (%v), the tree is %v, want %v", certain, order, want)
		}
	}
}

// A chain can be as long as a server has sessions. The answer is bounded.
func TestPageTreeIsBounded(t *testing.T) {
	t.Parallel()
	s := snapshot(noon)
	s.Locks[0].Waiters = nil
	for pid := int32(2); pid <= maxNodes+100; pid++ {
		s.Locks[0].Waiters = append(s.Locks[0].Waiters, monitor.Waiter{Session: monitor.Session{PID: pid},
			BlockedBy: []monitor.Blocker{{PID: pid - 1, Kind: "soft"}}})
	}
	st := newState(Live{Snapshot: s}, Options{}, "")
	if len(st.Tree) != maxNodes || st.MoreSessions != 100 || st.Tree[maxNodes-1].Depth != maxNodes-1 {
		t.Errorf("%d sessions, %d more", len(st.Tree), st.MoreSessions)
	}
}
