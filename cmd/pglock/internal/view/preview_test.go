package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// target returns the holder of invoice:42 and of a few other locks.
func target(t *testing.T) (*monitor.Snapshot, monitor.Target) {
	t.Helper()
	s := snapshot()
	holder := s.Locks[2].Holders[0]
	holder.TransactionSince, holder.Process = ago(5), "1f3a9c42"
	s.Locks[2].Holders[0] = holder
	sibling := holder
	sibling.PID = 4700
	s.Locks[0].Holders[0] = sibling
	for _, key := range []string{"a\x1b[2J", "b", "one, two", strings.Repeat("long", 20)} {
		s.Locks = append(s.Locks, monitor.Lock{Key: key, Database: "shop", Holders: []monitor.Holder{holder}})
	}
	s.Locks = append(s.Locks, monitor.Lock{Key: "@3", Database: "other", Holders: []monitor.Holder{holder}})
	c, err := s.Target(monitor.SessionID{PID: 4711})
	must.Succeed(t, err)
	return s, c
}

const beforeTermination = `
session 4711@2026-07-05T10:00:00Z
  user alice, database shop, application "billing", client 192.0.2.7:49152
  idle in tx for 3m00s, session 2h00m: UPDATE invoice SET paid = true

Ending it frees 3.
* it is one of the sessions of pglock process 1f3a9c42, which carry the locks of
  many callers: 6 locks end at once, and that process is notified
* its transaction is rolled back
Other sessions of its process stay: 4700.
It holds 6 locks; 3 sessions wait for them.
  invoice:42
    4712 waits for 1m30s: user alice, application "billing"
    4714 waits for 12s: user alice, application "billing"
    4715 waits for ?: user ?, application "?"
  and, without waiters:
    a\x1b[2J, b, 'one, two',
    longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong
    long, @3 in database other
`

func TestPreview(t *testing.T) {
	s, c := target(t)
	got := "\n" + strings.Join(Preview(s, c, "terminate", 80), "\n") + "\n"
	if got != beforeTermination {
		t.Errorf("got:%s\nwant:%s", got, beforeTermination)
	}
	for width := 20; width < 100; width += 7 {
		for _, line := range Preview(s, c, "cancel", width) {
			if Columns(line) > width {
				t.Errorf("%d columns, and not %d, has %s", Columns(line), width, line)
			}
		}
	}
}

// A candidate of an election waits for the end of the leader, which a number of those that it frees would not say.
func TestThePreviewOfALeaderCountsNoneThatAreFreed(t *testing.T) {
	s, _ := target(t)
	for i := range s.Locks[2].Waiters {
		s.Locks[2].Waiters[i].Expected = true
	}
	c, err := s.Target(monitor.SessionID{PID: 4711})
	if got := strings.Join(Preview(s, c, "terminate", 80), "\n"); err != nil || strings.Contains(got, "frees") {
		t.Errorf("%v\n%s", err, got)
	}
}

// The end of a dump frees a queue, as does the cancel of the ALTER at its head, which loses nothing.
func TestThePreviewOfADearSignalNamesTheBestAction(t *testing.T) {
	session := func(pid int32) monitor.Session {
		return monitor.Session{PID: pid, User: "app", State: "active", StateSince: ago(time.Hour)}
	}
	wait := func(pid, blocker int32, mode, kind string) monitor.OtherWait {
		return monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Name: "orders"}, Waiter: monitor.Waiter{Session: session(pid), Mode: mode,
			WaitingSince: ago(time.Hour), BlockedBy: []monitor.Blocker{{PID: blocker, Kind: kind}}}}
	}
	s := &monitor.Snapshot{TakenAt: now, OtherSessions: []monitor.Session{session(1), session(2)}, OtherWaits: []monitor.OtherWait{
		wait(2, 1, "AccessExclusiveLock", "hard"), wait(3, 2, "AccessShareLock", "soft"), wait(4, 2, "AccessShareLock", "soft")}}
	for pid, signals := range map[int32]map[string]bool{1: {"terminate": true}, 2: {"terminate": true, "cancel": false}} {
		c, err := s.Target(monitor.SessionID{PID: pid})
		must.Succeed(t, err)
		for signal, names := range signals {
			if got := strings.Join(Preview(s, c, signal, 80), "\n"); strings.Contains(got, "The best action: Cancel 2") != names {
				t.Errorf("%s\n", got)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	_, c := target(t)
	o := monitor.Outcome{Signal: "terminate", Target: c, Sent: true, Ended: true}
	for i, lock := range c.Holds {
		result := monitor.LockOutcome{Lock: lock}
		if i == 0 {
			waiter := monitor.Holder{Session: lock.Waiters[0].Session}
			result.Holders = []monitor.Holder{waiter, waiter, {Session: monitor.Session{GID: "it's"}}}
		}
		o.Locks = append(o.Locks, result)
	}
	want := "session 4711 has ended: 5 locks are free, 1 lock passed to the next waiter\n  invoice:42 is now held by 4712, 'it's'"
	if got := strings.Join(Outcome(o, 80), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestASharedLockStaysHeld(t *testing.T) {
	holders := []monitor.Holder{{Session: monitor.Session{PID: 1}}, {Session: monitor.Session{PID: 2}}}
	lock := monitor.Lock{Key: "a", Database: "shop", Holders: holders}
	c, err := (&monitor.Snapshot{Database: "shop", Locks: []monitor.Lock{lock}}).Target(monitor.SessionID{PID: 1})
	must.Succeed(t, err)
	before := strings.Join(Preview(&monitor.Snapshot{Database: "shop"}, c, "terminate", 80), "\n")
	if !strings.Contains(before, "a, shared with 2") {
		t.Errorf("before, it says\n%s", before)
	}
	o := monitor.Outcome{Target: c, Sent: true, Ended: true, Locks: []monitor.LockOutcome{{Lock: lock, Holders: holders[1:]}}}
	if after := strings.Join(Outcome(o, 80), "\n"); !strings.Contains(after, "a is still held by 2") {
		t.Errorf("afterwards it says\n%s", after)
	}
}
