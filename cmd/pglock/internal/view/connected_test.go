package view

import (
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Two unrelated chains: 1 waits for a table of 9 and holds @1, 2 waits for a row of 1 and for 8; 3 holds @3 and waits
// for a table of 7. In another database 5 waits for 6, and none of them has an advisory lock.
func TestAFilterKeepsOnlyTheChainOfItsLocks(t *testing.T) {
	session := func(pid int32) monitor.Session { return monitor.Session{PID: pid, Database: "shop"} }
	waiter := func(pid int32, blockers ...int32) monitor.OtherWait {
		wait := monitor.OtherWait{Waiter: monitor.Waiter{Session: session(pid)}}
		for _, blocker := range blockers {
			wait.BlockedBy = append(wait.BlockedBy, monitor.Blocker{PID: blocker, Kind: "hard"})
		}
		return wait
	}
	lock := func(number int64, holder int32) monitor.Lock {
		key := pglock.Int64Key(number)
		return monitor.Lock{Key: key.String(), Space: "bigint", Objsubid: 1, Number: number, Database: "shop",
			Holders: []monitor.Holder{{Session: session(holder)}}}
	}
	apart := waiter(5, 6)
	apart.Database = "other"
	s := &monitor.Snapshot{
		Database:       "other",
		Locks:          []monitor.Lock{lock(1, 1), lock(3, 3)},
		OtherWaits:     []monitor.OtherWait{waiter(1, 9), waiter(2, 1, 8), waiter(3, 7), apart},
		OtherSessions:  []monitor.Session{session(2), session(5), session(6), session(7), session(8), session(9)},
		WaitsElsewhere: 4,
	}
	pids := func(s *monitor.Snapshot) (waits, others []int32) {
		for _, wait := range s.OtherWaits {
			waits = append(waits, wait.PID)
		}
		for _, session := range s.OtherSessions {
			others = append(others, session.PID)
		}
		return waits, others
	}
	for name, test := range map[string]struct {
		filter        Filter
		waits, others []int32
	}{
		"all":           {Filter{}, []int32{1, 2, 3, 5}, []int32{2, 5, 6, 7, 8, 9}},
		"@1":            {Filter{Keys: []pglock.Key{pglock.Int64Key(1)}}, []int32{1, 2}, []int32{2, 8, 9}},
		"@3":            {Filter{Keys: []pglock.Key{pglock.Int64Key(3)}}, []int32{3}, []int32{7}},
		"this database": {Filter{Here: true}, []int32{5}, []int32{5, 6}},
	} {
		waits, others := pids(test.filter.Apply(s))
		if !slices.Equal(waits, test.waits) || !slices.Equal(others, test.others) {
			t.Errorf("%s: waits of %v, sessions %v; want %v, %v", name, waits, others, test.waits, test.others)
		}
		elsewhere := 4
		if len(test.filter.Keys) > 0 {
			elsewhere = 0
		}
		if got := test.filter.Apply(s).WaitsElsewhere; got != elsewhere || test.filter.Action(s).Elsewhere != elsewhere {
			t.Errorf("%s: %d wait elsewhere, want %d", name, got, elsewhere)
		}
		if waits := test.filter.Action(s).Waiting; waits != len(test.waits) {
			t.Errorf("%s: the headline counts %d waits, want %d", name, waits, len(test.waits))
		}
	}
	if waits, others := pids(s); len(waits) != 4 || len(others) != 6 {
		t.Errorf("the snapshot was changed: %v, %v", waits, others)
	}
}
