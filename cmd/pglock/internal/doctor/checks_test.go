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
			BlockedBy: []monitor.Blocker{{PID: 7, Kind: "hard"}}}}}}}
	for long, level := range map[time.Duration]Level{time.Minute: Warning, 1<<63 - 1: OK} {
		f := waits(facts{snapshot: s, server: " -d shop"}, long)
		if f.Level != level || level != OK && !strings.Contains(f.Do, "pglock terminate -d shop 7@2026-11-25T12:00:00Z") {
			t.Errorf("%+v", f)
		}
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
	process := func(name string, left time.Duration) monitor.Session {
		expires := at.Add(left)
		return monitor.Session{Application: name, User: "app", Lease: &monitor.Lease{Holder: "00000000000000" + name, Expires: &expires}}
	}
	ago := func(d time.Duration) *time.Time {
		t := at.Add(-d)
		return &t
	}
	behindAA := []monitor.Blocker{{Holder: "00000000000000aa", Kind: "hard"}}
	s := &monitor.Snapshot{TakenAt: at, Database: "shop", Locks: []monitor.Lock{{
		InRow: true, Database: "shop", Key: "invoice:42", Kind: "lock",
		Holders: []monitor.Holder{{Mode: "exclusive", SeenSince: ago(time.Hour), Session: process("aa", 400*time.Millisecond)}},
		Waiters: []monitor.Waiter{
			{Mode: "exclusive", WaitingSince: ago(time.Hour), Session: process("bb", time.Minute), BlockedBy: behindAA},
			{Mode: "exclusive", WaitingSince: ago(2 * time.Minute), Session: process("cc", time.Minute), BlockedBy: behindAA}},
	}, {
		InRow: true, Database: "shop", Key: "job", Kind: "leader",
		Holders: []monitor.Holder{{Mode: "exclusive", SeenSince: ago(time.Hour), Session: process("dd", -time.Minute)}},
		Waiters: []monitor.Waiter{{Mode: "exclusive", WaitingSince: ago(time.Hour), Session: process("ee", time.Minute)}},
	}}}
	f := facts{snapshot: s, server: " -d shop"}
	if found := waits(f, time.Minute); found.Level != Warning || !strings.HasPrefix(found.What, "Terminate aa, holds invoice:42 (excl) in a row") ||
		!strings.HasSuffix(found.Do, "pglock terminate -d shop --holder 00000000000000aa") {
		t.Errorf("%+v", found)
	}
	leases := rowLeases(f)
	if len(leases) != 2 || leases[0].Level != Note || !strings.Contains(leases[0].What, "dd, role app, lease over for 1m00s") ||
		leases[1].Level != Warning || !strings.Contains(leases[1].What, "lease left 400ms") {
		t.Errorf("%+v", leases)
	}
	for _, found := range [][]Finding{{waits(f, 2*time.Hour)}, rowLeases(facts{snapshot: &monitor.Snapshot{}})} {
		if len(found) != 1 || found[0].Level != OK {
			t.Errorf("%+v", found)
		}
	}
	f.connections = monitordb.ConnectionsRow{ServerUsed: 20, ServerLimit: 20, DatabaseLimit: -1, RoleLimit: -1}
	if full := connections(f); !strings.HasPrefix(full.Do, "first let those go on that wait: pglock terminate -d shop --holder 00000000000000aa; then ") {
		t.Errorf("of a full server: %+v", full)
	}
	r := report(f, Options{LongWait: time.Minute, Server: " -d shop", Ignore: Checks})
	if !strings.HasPrefix(r.Headline, "Terminate aa, holds invoice:42 (excl) in a row") || r.End != "pglock terminate -d shop --holder 00000000000000aa" {
		t.Errorf("%q, %q", r.Headline, r.End)
	}
}

// The way out of a deadlock is the headline's.
func TestADeadlockHasTheWayOutOfTheHeadline(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	lock := func(number int64, holder, waiter int32) monitor.Lock {
		return monitor.Lock{Number: number, Objsubid: 1, Holders: []monitor.Holder{{Mode: "exclusive", Session: monitor.Session{PID: holder, Since: &at}}},
			Waiters: []monitor.Waiter{{Mode: "exclusive", Session: monitor.Session{PID: waiter, Since: &at}, BlockedBy: []monitor.Blocker{{PID: holder, Kind: "hard"}}}}}
	}
	s := &monitor.Snapshot{TakenAt: at, Locks: []monitor.Lock{lock(1, 11, 12), lock(2, 12, 11)},
		Cycles: []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 11, BlockedBy: 12}, {PID: 12, BlockedBy: 11}}}}}
	found, command := waits(facts{snapshot: s}, time.Minute), s.Action().Command("")
	if found.Level != Problem || command == "" || found.What != s.Action().String() || !strings.HasPrefix(found.Do, command+"; ") {
		t.Errorf("%+v, and the headline's command is %s", found, command)
	}
}

// What could not be read is not well, and nothing is said about it.
func TestLocksInRowsThatWereNotReadAreUnknown(t *testing.T) {
	for _, s := range []*monitor.Snapshot{
		{RowLocksMissing: "role app may not read the locks in rows"},
		{RowLocksMissing: "2 of 3 waits for locks in rows are left out", Locks: []monitor.Lock{{InRow: true}}},
	} {
		f := facts{snapshot: s}
		for _, found := range [][]Finding{{waits(f, time.Minute)}, rowLeases(f)} {
			if len(found) != 1 || found[0].Level != Note || !strings.HasPrefix(found[0].What, "it is unknown whether ") ||
				found[0].Why != s.RowLocksMissing || found[0].Do == "" {
				t.Errorf("%q: %+v", s.RowLocksMissing, found)
			}
		}
	}
}
