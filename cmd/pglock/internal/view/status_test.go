package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func limit(d time.Duration) *time.Duration { return &d }

func withDeadlock(s *monitor.Snapshot) {
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 4712, Key: "invoice:42", Database: "shop",
		BlockedBy: 4711, Kind: "hard"}}}, {}}
}

// withTableWait lets a session wait for a table that the holder of invoice:42 has locked.
func withTableWait(s *monitor.Snapshot) {
	since := s.TakenAt.Add(-4 * time.Minute)
	s.OtherWaits = []monitor.OtherWait{{Lock: monitor.OtherLock{Type: "relation", Database: "shop", Name: "orders"},
		Waiter: monitor.Waiter{Session: monitor.Session{PID: 99, Database: "shop"}, Mode: "AccessShareLock", WaitingSince: &since,
			BlockedBy: []monitor.Blocker{{PID: 4711, Kind: "hard"}}}}}
}

func TestStatus(t *testing.T) {
	const (
		bare    = "Terminate 4711 billing, idle in transaction for 3m00s, holds invoice:42 (excl): frees 3, longest wait 1m30s; 1 other waits"
		end     = "; run: pglock terminate -d shop 4711@2026-07-05T10:00:00Z"
		billing = bare + end
	)
	alone := Filter{Keys: []pglock.Key{pglock.Int64Key(5)}}
	for name, c := range map[string]struct {
		filter  Filter
		limits  Limits
		change  func(*monitor.Snapshot)
		verdict Verdict
		line    string
	}{
		"no waiters": {alone, Limits{Fail: limit(30 * time.Second)}, nil, OK,
			"PGLOCK OK - Of what the filters show, nothing waits (4 waits are not shown). 1 lock held. | longest_wait=0.000s;;30;0 waiters=0;;;0 holders=1;;;0 lock_table=4.2%;;;0"},
		"below the limits": {Filter{}, Limits{Warn: limit(2 * time.Minute), Fail: limit(time.Hour)}, nil, OK,
			"PGLOCK OK - " + billing + " | " +
				"longest_wait=90.000s;120;3600;0 waiters=4;;;0 holders=3;;;0 lock_table=4.2%;;;0"},
		"a warning": {Filter{}, Limits{Warn: limit(time.Minute), Fail: limit(time.Hour)}, nil, Warning,
			"PGLOCK WARNING - " + billing + " | "},
		"a filter of nothing": {Filter{Keys: []pglock.Key{pglock.Int64Key(99)}}, Limits{Fail: limit(time.Second)}, nil, OK,
			"PGLOCK OK - Of what the filters show, nothing waits (4 waits are not shown). No locks held. | "},
		"critical": {Filter{}, Limits{Warn: limit(time.Second), Fail: limit(89 * time.Second)}, nil, Critical,
			"PGLOCK CRITICAL - " + billing + " | longest_wait=90.000s;1;89;0 "},
		"a wait for another lock": {Filter{}, Limits{Fail: limit(3 * time.Minute)}, withTableWait, Critical,
			"PGLOCK CRITICAL - Terminate 4711 billing, idle in transaction for 3m00s, holds invoice:42 (excl): frees 4, longest wait 4m00s; 1 other waits" + end + " | " +
				"longest_wait=240.000s;;180;0 waiters=5;"},
		"an election": {Filter{}, Limits{Fail: limit(0)}, func(s *monitor.Snapshot) {
			for i := range s.Locks {
				for k := range s.Locks[i].Waiters {
					s.Locks[i].Waiters[k].Expected = true
				}
			}
		}, OK, "PGLOCK OK - Nothing waits but 4 for elections, permits and runs of jobs. 3 locks held. | longest_wait=0.000s;;0;0 waiters=4;"},
		"waits elsewhere": {Filter{}, Limits{Fail: limit(time.Hour)}, func(s *monitor.Snapshot) { s.Locks, s.WaitsElsewhere = nil, 30 }, OK,
			"PGLOCK OK - Nothing waits for an advisory lock; 30 sessions wait without an advisory lock. No locks held. | "},
		"waits elsewhere than the filter shows": {Filter{Here: true}, Limits{Fail: limit(time.Hour)}, func(s *monitor.Snapshot) { s.Locks, s.WaitsElsewhere = nil, 1 }, OK,
			"PGLOCK OK - Nothing waits for an advisory lock; 1 session waits without an advisory lock on the whole server. No locks held. | "},
		"locks in rows that could not be read": {Filter{}, Limits{Fail: limit(time.Hour)}, func(s *monitor.Snapshot) {
			s.Locks, s.WaitsElsewhere, s.RowLocksMissing = s.Locks[1:2], 2, "no grant"
			s.Locks[0].Waiters = nil
		}, Unknown, "PGLOCK UNKNOWN - Nothing waits for an advisory lock; 2 sessions wait without an advisory lock; locks in rows could not be read. 1 advisory lock held.; no grant | "},
		"blockers that could not be read": {Filter{}, Limits{Fail: limit(time.Hour)}, func(s *monitor.Snapshot) { s.Locks, s.BlockersMissing = nil, "timed out" },
			Unknown, "PGLOCK UNKNOWN - Nothing waits. No locks held.; timed out | "},
		"a deadlock":                {Filter{}, Limits{Fail: limit(time.Hour)}, withDeadlock, Critical, "PGLOCK CRITICAL - " + bare + "; 1 deadlock; 1 possible deadlock" + end},
		"a deadlock of another key": {alone, Limits{Fail: limit(time.Hour)}, withDeadlock, OK, "PGLOCK OK - Of what the filters show, nothing waits (4 waits are not shown). 1 lock held. | "},
		"hidden": {Filter{}, Limits{Fail: limit(time.Hour)}, func(s *monitor.Snapshot) {
			s.Locks = s.Locks[1:2]
			s.Locks[0].Waiters[0].Hidden, s.Locks[0].Waiters[0].WaitingSince = []string{"waiting_since"}, nil
			s.DetailsHidden = "GRANT this"
		}, Unknown, "PGLOCK UNKNOWN - Roll back prepared transaction \"it's\", 1h00m old, holds @7/-42 (shared): frees 1; the server does not report how long 1 waiter has waited; GRANT this; run: ROLLBACK PREPARED 'it''s' | longest_wait=0.000s"},
		"hidden, and others are critical": {Filter{}, Limits{Fail: limit(time.Second)}, func(s *monitor.Snapshot) {
			s.Locks[1].Waiters[0].Hidden, s.Locks[1].Waiters[0].WaitingSince = []string{"waiting_since"}, nil
		}, Critical, "PGLOCK CRITICAL - " + billing + " | "},
		"hostile names": {Filter{}, Limits{Fail: limit(time.Second)}, func(s *monitor.Snapshot) {
			s.Locks[2].Key = "a|b\n\x1b[2J"
		}, Critical, `PGLOCK CRITICAL - Terminate 4711 billing, idle in transaction for 3m00s, holds a/b\n\x1b[2J (excl): frees 3, longest wait 1m30s; 1 other waits` + end + ` | longest_wait`},
	} {
		s := snapshot()
		s.Capacity = monitor.Capacity{Nominal: 1000, Used: 42}
		if c.change != nil {
			c.change(s)
		}
		verdict, line := Status(s, c.filter, c.limits, " -d shop")
		if verdict != c.verdict || !strings.HasPrefix(line, c.line) || strings.Count(line, "|") != 1 {
			t.Errorf("%s: %v %s\nwant %v %s", name, verdict, line, c.verdict, c.line)
		}
	}
}
