package tui

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// migrationSnapshot returns a snapshot of a session that holds no advisory lock and blocks others.
func migrationSnapshot() *monitor.Snapshot {
	flyway := session(4711, "flyway")
	flyway.State = "idle in transaction"
	blocker := hardBlocker(4711)
	blocker.Mode = "AccessExclusiveLock"
	wait := func(pid int32) monitor.OtherWait {
		return monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Relation: 1, Name: "orders"},
			Waiter: waits(session(pid, "web"), "AccessShareLock", time.Second, blocker)}
	}
	return &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba",
		OtherWaits: []monitor.OtherWait{wait(4712), wait(4713)}, OtherSessions: []monitor.Session{flyway}}
}

// The details of a session without advisory locks name what it holds, and the command that ends it unless that is cut.
func TestTheDetailsNameLocksOfOtherTypes(t *testing.T) {
	u := open(t, Options{First: migrationSnapshot(), Flags: " -d shop", End: sendNothing}, 80, 40)
	u.presses("enter")
	u.wants("4711 waits for no lock", "holds, of locks of other types, what others wait for:", "   relation orders (AccExcl)",
		"4712 web, waits for relation orders (AccShare) for 1.0s",
		"pglock terminate -d shop 4711@2026-11-20T11:00:00Z")
	u.wantsNot("holds 0 locks")
	u = open(t, Options{First: migrationSnapshot(), Flags: " -d shop", End: sendNothing}, 30, 40)
	u.presses("enter")
	u.wants("4711 waits for no lock")
	u.wantsNot("pglock terminate")
	u = open(t, Options{First: migrationSnapshot()}, 80, 40)
	u.presses("enter")
	u.wants("4711 waits for no lock")
	u.wantsNot("to end it") // the past cannot be ended
}

// A narrow terminal has no column for the mode.
func TestANarrowTreeHasTheModes(t *testing.T) {
	u := open(t, Options{First: migrationSnapshot()}, 40, 20)
	u.golden("tree-tiny")
}
