package tui

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// classes returns a snapshot of pairs: 5 sessions hold 1,000 of a class each, and one key is contended.
func classes() *monitor.Snapshot {
	s := &monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}
	for class := range int32(5) {
		for object := range int32(1000) {
			l := lock(pglock.PairKey(class, object))
			l.Class, l.Object, l.Space = class, object, monitor.SpacePair
			l.Holders = []monitor.Holder{holds(session(1000+class, "worker"), monitor.ModeExclusive)}
			if class == 3 && object == 77 {
				l.Waiters = []monitor.Waiter{waits(session(2000, "client"), monitor.ModeExclusive, time.Minute, hardBlocker(1003))}
			}
			s.Locks = append(s.Locks, l)
		}
	}
	for object := range int32(minGroup - 1) {
		l := lock(pglock.PairKey(9, object))
		l.Class, l.Object, l.Space = 9, object, monitor.SpacePair
		s.Locks = append(s.Locks, l)
	}
	return s
}

func TestKeysOfAClassAreOneRow(t *testing.T) {
	u := start(t, Options{First: classes()}, 100, 30)
	u.wants("5,009 keys", "@1/* 1,000 keys", "@3/* 999 keys", "@3/77 ", "1001 worker", "@9/0 ", "@9/8 ")
	u.wantsSelected("@3/77")
	u.presses("down")
	u.wantsSelected("@0/* 1,000 keys")
	u.snapshotArrives(classes())
	u.wantsSelected("@0/* 1,000 keys")
	u.presses("f")
	u.wants("a group cannot be followed")
	u.presses("enter")
	u.wants("@0/0 ", "1-", "of 1,014")
	u.wantsNot("@0/* ")
	u.presses("u") // folds all groups again
	u.wants("@0/* 1,000 keys")
	u.presses("u")
	u.wants("of 5,009")
	u.presses("u", "/@3/", "enter")
	u.wants("of 1,000", "@3/77", "@3/0 ") // a search for keys shows them
	u.wantsNot("@1/*", "@3/*")
}

func TestNamesThatBeginAlikeAreOneRow(t *testing.T) {
	u := start(t, Options{First: manyLocks(5000)}, 100, 30)
	u.wants("job:* 4,990 keys", "2, exclusive", "job:4500 ", "job:0 ")
	u.presses("end")
	u.wantsSelected("job:* 4,990 keys")
	before := u.m.query
	u.presses("enter")
	u.wants("of 5,000")
	if len(before.toggled) != 0 {
		t.Error("the old query has changed")
	}
}
