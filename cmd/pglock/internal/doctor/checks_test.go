package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/monitor"
)

// A table that is 165 % full is not enlarged to one that is 82 % full.
func TestTheTableThatIsSuggestedHasRoom(t *testing.T) {
	for used, want := range map[int64]string{6400: "= 128", 10_560: "= 256", 60_000: "= 2048"} {
		c := monitor.Capacity{Nominal: 6400, Used: used, MaxLocksPerTransaction: 64, MaxConnections: 100}
		f := lockTable(facts{snapshot: &monitor.Snapshot{Capacity: c}})
		if len(f.SQL) != 1 || !strings.HasSuffix(f.SQL[0], want) {
			t.Errorf("%d of 6400: %q, want %s", used, f.SQL, want)
		}
	}
}

// The suggested commands name the server that was examined, and a session such that no later one with its process ID can be meant.
func TestSuggestedCommandsNameTheServerAndTheSession(t *testing.T) {
	since := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	s := &monitor.Snapshot{TakenAt: time.Now(), Locks: []monitor.Lock{{Key: "a", Holders: []monitor.Holder{{Session: monitor.Session{PID: 7, Since: &since}}},
		Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 8}, WaitingSince: new(time.Time),
			BlockedBy: []monitor.Blocker{{PID: 7, Kind: monitor.BlockHard}}}}}}}
	found := waits(facts{snapshot: s, server: " -d shop"}, time.Minute)
	if len(found) != 1 || !strings.Contains(found[0].Do, "pglock terminate -d shop --session 7@2026-11-25T12:00:00Z") {
		t.Errorf("%+v", found)
	}
}

// Cases that the test servers do not show.

func TestCockroachIsAProblemAndTheOnlyFinding(t *testing.T) {
	r := report(facts{cockroach: "CockroachDB CCL v24.1.0"}, Options{LongWait: time.Minute})
	if len(r.Findings) != 1 || r.Worst != Problem || !strings.Contains(r.Findings[0].What, "CockroachDB CCL v24.1.0") {
		t.Errorf("the report is %+v", r)
	}
}

func TestAServerThatOnlyPretendsToLockIsAProblem(t *testing.T) {
	if f := probe(facts{lockWorks: false}); f.Level != Problem {
		t.Errorf("the finding is %+v", f)
	}
}

func TestWhatPostgreSQL13Lacks(t *testing.T) {
	f := facts{settings: map[string]monitordb.SettingsRow{}}
	if found := lease(f); found.Level != Warning || !strings.Contains(found.What, "idle_session_timeout") {
		t.Errorf("without idle_session_timeout: %+v", found)
	}
	if found := vanishedWaiters(f); found.Level != Note || len(found.SQL) != 0 {
		t.Errorf("without client_connection_check_interval: %+v", found)
	}
	if found := timeouts(f); len(found) != 0 {
		t.Errorf("without any timeout: %+v", found)
	}
}

func TestHowFullTheLockTableIs(t *testing.T) {
	for used, want := range map[int64]Level{0: OK, 3199: OK, 3200: Warning, 5119: Warning, 5120: Problem, 9999: Problem} {
		c := monitor.Capacity{Nominal: 6400, Used: used, MaxLocksPerTransaction: 64, MaxConnections: 100,
			Top: []monitor.SessionLoad{{Session: monitor.Session{PID: 4711}, Locks: 3000}}}
		f := lockTable(facts{snapshot: &monitor.Snapshot{Capacity: c}})
		text := f.What + strings.Join(f.SQL, "")
		if f.Level != want || want != OK && !(strings.Contains(text, "process 4711") && strings.Contains(text, "max_locks_per_transaction = ")) {
			t.Errorf("%d of 6400: %+v", used, f)
		}
	}
}

func TestSessionsThatWaitForEachOther(t *testing.T) {
	steps := []monitor.Step{{PID: 1, Key: "a", BlockedBy: 2}, {PID: 2, Key: "b", BlockedBy: 1}}
	for certain, want := range map[bool]Level{true: Problem, false: Warning} {
		s := &monitor.Snapshot{Cycles: []monitor.Cycle{{Certain: certain, Steps: steps}}}
		found := cycles(facts{snapshot: s})
		circle := "1 waits for a behind 2, 2 waits for b behind 1"
		if len(found) != 1 || found[0].Level != want || !strings.Contains(found[0].What, circle) {
			t.Errorf("certain is %v: %+v", certain, found)
		}
	}
}

func TestALongListIsCutShort(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Hour)
	var locks []monitor.Lock
	for range 2*maxListed + 1 {
		waiters := []monitor.Waiter{{WaitingSince: &now}, {WaitingSince: &since}, {WaitingSince: &since}}
		locks = append(locks, monitor.Lock{Key: "a", Waiters: waiters})
	}
	found := waits(facts{snapshot: &monitor.Snapshot{TakenAt: now, Locks: locks}}, time.Minute)
	if !strings.HasSuffix(found[0].What, "; so has 1 other, not as long") {
		t.Errorf("the other waiters are missing: %+v", found[0])
	}
	if len(found) != maxListed+1 || !strings.Contains(found[maxListed].What, "11 more locks with long waits") {
		t.Errorf("there are %d findings, the last is %+v", len(found), found[len(found)-1])
	}
}

// The findings name the session, for how long it has been stuck, and the command that ends it.
func TestIdleHoldersAndOldDeadlocksComeWithACommand(t *testing.T) {
	now := time.Now()
	since := now.Add(-4 * time.Minute)
	idle := monitor.Session{PID: 4711, Database: "shop", State: "idle in transaction", StateSince: &since, Since: &since}
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", OtherSessions: []monitor.Session{idle, {PID: 1, Since: &since}},
		OtherWaits: []monitor.OtherWait{{Lock: monitor.OtherLock{Type: "relation", Name: "t"}, Waiter: monitor.Waiter{
			Session: monitor.Session{PID: 4712}, BlockedBy: []monitor.Blocker{{PID: 4711, Kind: monitor.BlockHard}}}}},
		Cycles: []monitor.Cycle{{Certain: true, Since: &since, Steps: []monitor.Step{{PID: 1, Key: "a", BlockedBy: 2}}}}}
	f := facts{snapshot: s, settings: map[string]monitordb.SettingsRow{deadlockTimeout: {Setting: "1000", Shown: "1s"}}}
	found := idleHolders(f)
	if len(found) != 1 || found[0].Level != Warning || !strings.Contains(found[0].What, "idle in transaction, for 4m0s") ||
		!strings.HasSuffix(found[0].Do, "pglock terminate --session 4711@"+since.UTC().Format(time.RFC3339Nano)) || !strings.Contains(found[0].Do, "WithGuardIdleTimeout") {
		t.Errorf("the idle holder: %+v", found)
	}
	old := cycles(f)
	if len(old) != 1 || !strings.Contains(old[0].Why, "outlived deadlock_timeout (1s)") || len(old[0].SQL) != 0 ||
		!strings.Contains(old[0].Do, "pglock cancel --session 1@") {
		t.Errorf("the deadlock: %+v", old)
	}
	s.Cycles[0].Since = &now
	if young := cycles(f); strings.Contains(young[0].Why, "outlived") || !strings.Contains(young[0].Why, "deadlock_timeout (1s)") ||
		!strings.Contains(young[0].Do, "pglock cancel --session 1@") {
		t.Errorf("a deadlock that has just begun: %+v", young)
	}
}

// The holder of @3333 waits for a table. The session to end is the one at the root, not the holder.
func TestALongWaitNamesTheSessionAtTheRoot(t *testing.T) {
	now := time.Now()
	since := now.Add(-4 * time.Minute)
	session := func(pid int32, state string) monitor.Session {
		return monitor.Session{PID: pid, State: state, StateSince: &since, Since: &since}
	}
	waiter := func(pid, blocker int32) monitor.Waiter {
		return monitor.Waiter{Session: session(pid, "active"), WaitingSince: &since,
			BlockedBy: []monitor.Blocker{{PID: blocker, Kind: monitor.BlockHard}}}
	}
	s := &monitor.Snapshot{TakenAt: now,
		Locks: []monitor.Lock{{Key: "@3333", Holders: []monitor.Holder{{Session: session(2, "active")}},
			Waiters: []monitor.Waiter{waiter(3, 2)}}},
		OtherWaits:    []monitor.OtherWait{{Lock: monitor.OtherLock{Type: "relation", Name: "t"}, Waiter: waiter(2, 1)}},
		OtherSessions: []monitor.Session{session(1, "idle in transaction")},
	}
	found := waits(facts{snapshot: s}, time.Minute)
	if len(found) != 1 || !strings.Contains(found[0].Why, "2 itself waits for relation t; at the root: process 1 ") ||
		!strings.Contains(found[0].Why, "is idle in transaction, for 4m0s") || !strings.HasSuffix(found[0].Do, ": pglock terminate --session 1@"+since.UTC().Format(time.RFC3339Nano)) {
		t.Errorf("behind a session that waits for a table: %+v", found)
	}
	later := waiter(2, 9) // of another parallel worker
	later.WaitingSince = &now
	s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Name: "u"}, Waiter: later})
	found = waits(facts{snapshot: s}, time.Minute)
	if !strings.Contains(found[0].Why, "2 itself waits for relation t; at the root: process 1 ") {
		t.Errorf("of two waits: %+v", found)
	}
	s.OtherWaits = s.OtherWaits[:1]
	s.OtherWaits[0].BlockedBy[0].PID = 3
	found = waits(facts{snapshot: s}, time.Minute)
	if len(found) != 1 || !strings.Contains(found[0].Why, "deadlock") || strings.Contains(found[0].Do, "terminate") {
		t.Errorf("in a deadlock: %+v", found)
	}
}

func TestEventTriggersAreNamed(t *testing.T) {
	f := facts{triggers: []monitordb.EventTriggersRow{{Name: "no ddl", Event: "ddl_command_start", Owner: "dba"}}}
	if found := eventTriggers(f); found.Level != Note || !strings.Contains(found.What, `"no ddl" (ddl_command_start, owner "dba")`) {
		t.Errorf("the finding is %+v", found)
	}
}

// PostgreSQL 19 logs waits by default, and counts them.
func TestWhatPostgreSQL19Changes(t *testing.T) {
	on := map[string]monitordb.SettingsRow{logLockWaits: {Setting: "on"}}
	for version, counted := range map[int32]bool{180006: false, 190000: true} {
		f := facts{settings: on, connection: monitordb.ConnectionRow{Version: version}}
		if found := lockWaits(f); found.Level != OK || strings.Contains(found.What, "pg_stat_lock") != counted {
			t.Errorf("%d: %+v", version, found)
		}
	}
	off := facts{settings: map[string]monitordb.SettingsRow{logLockWaits: {Setting: "off"}}}
	if found := lockWaits(off); found.Level != Note || len(found.SQL) != 2 {
		t.Errorf("switched off: %+v", found)
	}
}

// Locks in rows are examined as those of sessions are.
func TestWaitsAndLeasesOfLocksInRows(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	process := func(name string, left time.Duration) monitor.RowProcess {
		expires := at.Add(left)
		return monitor.RowProcess{Holder: "00000000000000" + name, Application: name, LeaseExpires: &expires, User: "app"}
	}
	s := &monitor.Snapshot{TakenAt: at, Database: "shop", RowLocks: []monitor.RowLock{{
		Key: "invoice:42", Kind: monitor.KindLock,
		Holders: []monitor.RowHolder{{Mode: monitor.ModeExclusive, RowProcess: process("aa", 400*time.Millisecond)}},
		Waiters: []monitor.RowWaiter{
			{Mode: monitor.ModeExclusive, WaitingSince: at.Add(-time.Hour), RowProcess: process("bb", time.Minute), BlockedBy: []string{"00000000000000aa"}},
			{Mode: monitor.ModeExclusive, WaitingSince: at.Add(-2 * time.Minute), RowProcess: process("cc", time.Minute), BlockedBy: []string{"00000000000000aa"}}},
	}, {
		Key: "job", Kind: monitor.KindLeader,
		Holders: []monitor.RowHolder{{Mode: monitor.ModeExclusive, RowProcess: process("dd", -time.Minute)}},
		Waiters: []monitor.RowWaiter{{Mode: monitor.ModeExclusive, WaitingSince: at.Add(-time.Hour), RowProcess: process("ee", time.Minute)}},
	}}}
	f := facts{snapshot: s, server: " -d shop"}
	found := rowWaits(f, time.Minute)
	if len(found) != 1 || found[0].Level != Warning || found[0].What != "bb has waited 1h0m0s for invoice:42 in a row of database shop; 1 more wait behind the same process" ||
		!strings.Contains(found[0].Why, "aa holds invoice:42 (excl), lease left 400ms") || !strings.HasSuffix(found[0].Do, "pglock terminate -d shop --holder 00000000000000aa") {
		t.Errorf("%+v", found)
	}
	leases := rowLeases(f)
	if len(leases) != 2 || leases[0].Level != Note || !strings.Contains(leases[0].What, "dd, role app, lease over for 1m00s") ||
		leases[1].Level != Warning || !strings.Contains(leases[1].What, "lease left 400ms") {
		t.Errorf("%+v", leases)
	}
	for _, found := range [][]Finding{rowWaits(f, 2*time.Hour), rowLeases(facts{snapshot: &monitor.Snapshot{}})} {
		if len(found) != 1 || found[0].Level != OK {
			t.Errorf("%+v", found)
		}
	}
	r := report(f, Options{LongWait: time.Minute, Server: " -d shop", Ignore: Checks})
	if !strings.HasPrefix(r.Headline, "aa holds invoice:42 (excl) in a row") || r.End != "pglock terminate -d shop --holder 00000000000000aa" {
		t.Errorf("%q, %q", r.Headline, r.End)
	}
}

// What could not be read is not well, and nothing is said about it.
func TestLocksInRowsThatWereNotReadAreUnknown(t *testing.T) {
	for _, s := range []*monitor.Snapshot{
		{RowLocksMissing: "role app may not read the locks in rows"},
		{RowLocksMissing: "2 of 3 holders and waiters of locks in rows are left out", RowLocks: []monitor.RowLock{{}}},
	} {
		f := facts{snapshot: s}
		for _, found := range [][]Finding{rowWaits(f, time.Minute), rowLeases(f)} {
			if len(found) != 1 || found[0].Level != Note || !strings.HasPrefix(found[0].What, "it is unknown whether ") ||
				found[0].Why != s.RowLocksMissing || found[0].Do == "" {
				t.Errorf("%q: %+v", s.RowLocksMissing, found)
			}
		}
	}
}
