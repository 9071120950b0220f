package tui

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/monitor"
)

// pileUp returns a snapshot of n sessions that wait for the key of one, each behind all that came before it, and of another
// root with a waiter.
func pileUp(n int) *monitor.Snapshot {
	s := &scene{monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}}
	s.lock(1, 10)
	for i := range n {
		blockers := []monitor.Blocker{hardBlocker(10)}
		for ahead := range i {
			blockers = append(blockers, softBlocker(int32(1000+ahead)))
		}
		s.wait(1, int32(1000+i), time.Duration(n-i), blockers...)
	}
	s.lock(2, 20)
	s.wait(2, 21, 3, hardBlocker(20))
	return &s.Snapshot
}

func TestAPileUpIsOneRow(t *testing.T) {
	u := open(t, Options{First: pileUp(200)}, 120, 40)
	u.wants("10 s10", "└─ ▸ 200 waiters             3m20s", "1.0s to 3m20s: 1000 s1000…", "20 s20", "└─ 21 s21")
	u.wantsNot("1001 s1001")
	u.presses("down")
	u.wantsSelected("└─ ▸ 200 waiters")
	u.presses("right")
	u.wantsSelected("├─ 1000 s1000")
	u.wants("1-", "of 203")
	u.presses("down", "down", "left")
	u.wantsSelected("└─ ▸ 200 waiters")
	u.wantsNot("1001 s1001")
	for _, key := range []string{"space", "enter", "right"} {
		u.presses(key)
		u.wants("├─ 1000 s1000")
		u.presses("space")
		u.wantsSelected("└─ ▸ 200 waiters")
	}
	u.presses("u")
	u.wants("├─ 1000 s1000", "of 203")
	u.presses("u")
	u.wants("▸ 200 waiters")
}

// The row stays selected when the first of the waiters gets the lock.
func TestTheSelectionStaysWithAFold(t *testing.T) {
	u := open(t, Options{First: pileUp(50)}, 120, 40)
	u.presses("down")
	u.wantsSelected("└─ ▸ 50 waiters")
	later := &scene{*pileUp(50)}
	later.Locks[0].Waiters = later.Locks[0].Waiters[1:]
	later.lock(3, 30)
	for pid := range int32(60) { // which is now the first of the trees
		later.wait(3, 2000+pid, 1, hardBlocker(30))
	}
	u.snapshotArrives(&later.Snapshot)
	u.wants("▸ 60 waiters")
	u.wantsSelected("└─ ▸ 49 waiters")
}

func TestFewWaitersAreNotFolded(t *testing.T) {
	u := open(t, Options{First: pileUp(fold.Above)}, 120, 40)
	u.wants("├─ 1000 s1000", "└─ 1004 s1004")
	u.wantsNot("▸")
}

// A filter shows the waiters that it matches beside the fold of the others.
func TestAFilterFindsAWaiterInAFold(t *testing.T) {
	u := open(t, Options{First: pileUp(200)}, 120, 40)
	u.presses("/s1017", "enter")
	u.wants("├─ 1017 s1017", "└─ ▸ 199 waiters")
	u.wantsNot("20 s20")
}

func TestWhatIsBelowASessionFolds(t *testing.T) {
	u := open(t, Options{First: mixedSnapshot()}, 80, 24)
	u.wantsSelected("4711 payments")
	u.presses("left")
	u.wantsSelected("▸ 4711 payments")
	u.wantsNot("4712 worker-1", "4716 late")
	u.snapshotArrives(mixedSnapshot())
	u.wantsSelected("▸ 4711 payments")
	u.presses("left") // is folded already
	u.wantsSelected("▸ 4711 payments")
	u.presses("right")
	u.wants("├─ 4712 worker-1", "4716 late")
	u.presses("down", "left") // nothing is below it
	u.wantsSelected("├─ 4712 worker-1")
}

// Waiters whose blockers are unknown are roots, and fold as others do.
func TestRootsFold(t *testing.T) {
	s := pileUp(30)
	for i := range s.Locks[0].Waiters {
		s.Locks[0].Waiters[i].BlockedBy = nil
	}
	u := open(t, Options{First: s}, 120, 40)
	u.wants("  ▸ 30 waiters", "20 s20")
}

// Candidates of an election stand below the others' incident, and their leader is no culprit.
func TestExpectedWaitsAreLast(t *testing.T) {
	s := pileUp(3)
	s.Locks[0].Kind = "leader"
	for i := range s.Locks[0].Waiters {
		s.Locks[0].Waiters[i].Expected = true
	}
	u := open(t, Options{First: s}, 120, 40)
	u.wantsSelected("20 s20")
	u.wants("20 s20, active for 10s, holds @2 (excl): frees 1")
	for _, r := range u.m.table.rows {
		if want := r.session.PID == 20; r.isRoot() != want {
			t.Errorf("session %d is a root: %v", r.session.PID, !want)
		}
	}
}
