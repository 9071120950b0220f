package monitor_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

var (
	age    = regexp.MustCompile(`\b([0-9.]+(ms|s)|[0-9]+m[0-9]+s)\b`)
	number = regexp.MustCompile(`\b([0-9]{3,}|[0-9]+/[0-9]+)\b`)
)

// general replaces the times and process IDs of a text.
func general(text string) string {
	return number.ReplaceAllString(age.ReplaceAllString(text, "AGE"), "N")
}

// requireHeadline waits for a headline, since a lock can be seen a moment after it is taken.
func requireHeadline(t *testing.T, db pglock.DB, want string, opts ...monitor.Option) (s *monitor.Snapshot) {
	t.Helper()
	var got string
	testenv.WaitUntil(t, "the headline "+want, func() bool {
		var err error
		s, err = monitor.Take(t.Context(), db, opts...)
		must.Succeed(t, err)
		if text := general(s.Action().String()); text != got {
			got = text
			t.Logf("the headline is %s", got)
		}
		return got == want
	})
	return s
}

// appName sets the name by which a session is told from others.
func appName(name string) string { return "SET application_name = '" + name + "'" }

// actionScenes are scenes with the action that a DBA would take.
var actionScenes = map[string]struct {
	set  func(idleSessions)
	want string
}{
	"nothing": {func(idleSessions) {}, "Nothing waits. No locks held."},
	"at the root is the session with the table, not the one that holds the key": {func(s idleSessions) {
		s.session(appName("ddl-owner"), "BEGIN", "-- why\nLOCK  TABLE t")
		s.waits("SELECT * FROM t", "SELECT pg_advisory_lock(3333)")
		s.waits("SELECT pg_advisory_lock(3333)")
		s.session(appName("other"), "SELECT pg_advisory_lock(1)")
		s.waits("SELECT pg_advisory_lock(1)")
	}, "Terminate N ddl-owner, idle in transaction for AGE, holds relation t (AccExcl): frees 1, then 1 more, longest wait AGE; 1 other waits"},
	"a DDL queue: the ALTERs have done nothing yet": {func(s idleSessions) {
		for range 3 {
			s.session(appName("report"), "BEGIN", "SELECT * FROM t")
		}
		for range 2 {
			s.waits("ALTER TABLE t ADD w int", appName("flyway"))
		}
		for range 4 {
			s.waits("SELECT * FROM t")
		}
	}, "Cancel 2 sessions that wait for relation t (AccExcl) (N flyway, N flyway); all must be cancelled: frees 4, longest wait AGE; " +
		"or terminate 3 sessions that share relation t (N report, N report, N report); all must end: frees 1, then 5 more"},
	"a member of a queue frees none": {func(s idleSessions) {
		s.session(appName("holder"), "SELECT pg_advisory_lock(7)")
		for range 3 {
			s.waits("SELECT pg_advisory_lock(7)", appName("member"))
		}
	}, "Terminate N holder, idle for AGE, holds @7 (excl): frees 1, then 2 more, longest wait AGE"},
	"shared holders free only together": {func(s idleSessions) {
		for range 2 {
			s.session(appName("reader"), "SELECT pg_advisory_lock_shared(9)")
		}
		s.waits("SELECT pg_advisory_lock(9)")
	}, "Terminate 2 sessions that share @9 (N reader, N reader); all must end: frees 1, longest wait AGE"},
	"too many holders": {func(s idleSessions) {
		for range 9 {
			s.session(appName("reader"), "SELECT pg_advisory_lock_shared(9)")
		}
		s.waits("SELECT pg_advisory_lock(9)")
	}, "1 waiter, longest wait AGE, for @9 behind N reader: 9 share it, and all must end"},
	"a deadlock": {func(s idleSessions) {
		left := s.session(patience, appName("left"), "BEGIN", "SELECT pg_advisory_xact_lock(1)")
		right := s.session(patience, appName("right"), "SELECT pg_advisory_lock(2)", "BEGIN", "SELECT 1")
		s.db.Queue(s.T, left, "SELECT pg_advisory_xact_lock(2)")
		s.db.Queue(s.T, right, "SELECT pg_advisory_xact_lock(1)")
		s.session(appName("idler"), "BEGIN", "LOCK TABLE t") // whose end loses less, but it may end by itself
		s.waits("SELECT * FROM t")
	}, "Deadlock for AGE: N → N → N. Terminate N right: frees 1, longest wait AGE; 1 other waits"},
	"a prepared transaction": {func(s idleSessions) {
		s.session("BEGIN", "SELECT pg_advisory_xact_lock(7)", "PREPARE TRANSACTION 'it''s late'")
		s.Cleanup(func() { execute(s.T, s.db.Connect(s.T), "ROLLBACK PREPARED 'it''s late'") })
		s.waits("SELECT pg_advisory_lock(7)")
	}, `Roll back prepared transaction "it's late", AGE old, holds @7 (excl): frees 1, longest wait AGE`},
	"a row that two share: only one of them is known": {func(s idleSessions) {
		for range 2 {
			s.session(appName("reader"), "BEGIN", "SELECT FROM t WHERE id = 1 FOR SHARE")
		}
		s.waits("UPDATE t SET v = 2 WHERE id = 1")
		s.waits("UPDATE t SET v = 2 WHERE id = 1")
	}, "Terminate N reader, idle in transaction for AGE, holds row of t in transaction N: frees at least 0, at most 2 " +
		"(the next blocker is not known), longest wait AGE"},
	"an index that waits for two old transactions, one after the other": {func(s idleSessions) {
		for range 2 {
			s.session(appName("old"), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
		}
		s.waits("CREATE INDEX CONCURRENTLY ON t (v)")
	}, "Terminate N old, idle in transaction for AGE, holds virtual transaction N: frees at least 0, at most 1 (the next blocker is not known), longest wait AGE"},
}

func TestActionScenes(t *testing.T) {
	for name, scene := range actionScenes {
		t.Run(name, func(t *testing.T) {
			s := newIdleSessions(t)
			scene.set(s)
			pool := s.db.Pool(t)
			if a := requireHeadline(t, pool, scene.want).Action(); a.Command("") != "" && a.Signal != "rollback" {
				actOnce(t, pool, s.db.Name())
			}
		})
	}
}

// Candidates of an election wait for as long as the leader leads. That is no incident.
func TestActionLeavesElectionsOut(t *testing.T) {
	db := testenv.Installed(t)
	pool := db.Pool(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 4)
	lead := func(l *pglock.Locker) {
		go func() {
			ended <- leader.Run(ctx, l, invoice, func(ctx context.Context, _ *pglock.Lock) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
	}
	for range 2 {
		lead(rowLocker(t, pool))
		l, err := pglock.New(pool)
		must.Succeed(t, err)
		t.Cleanup(func() { _ = l.Close(context.Background()) })
		lead(l)
	}
	h := requireHeadline(t, pool, "Nothing waits but 2 for elections, permits and runs of jobs. 2 locks held.").Action()
	if h.Waiting != 0 || h.Expected != 2 || len(h.Whom) > 0 {
		t.Errorf("%+v", h)
	}
	session(t, db, "SELECT pg_advisory_lock(7)")
	startWaiter(t, db, "SELECT pg_advisory_lock(7)")
	s := requireHeadline(t, pool, "Terminate N TestActionLeavesElectionsOut, idle for AGE, holds @7 (excl): frees 1, longest wait AGE")
	if label, _, _ := s.Tree().Roots[0].Held(); label != "@7" {
		t.Errorf("the tree begins with who holds %q", label)
	}
	cancel()
	for range cap(ended) {
		<-ended
	}
}

// Silence about advisory locks is not health.
func TestActionCountsWaitsElsewhere(t *testing.T) {
	s := newIdleSessions(t)
	pool := s.db.Pool(t)
	s.session("BEGIN", "LOCK TABLE t")
	s.waits("SELECT * FROM t")
	taken, err := monitor.Take(t.Context(), pool, monitor.WithAdvisory())
	must.Succeed(t, err)
	h := taken.Action()
	if text := h.String(); h.Elsewhere == 0 || !strings.Contains(text, "without an advisory lock") {
		t.Errorf("%s: %+v", text, h)
	}
	taken, err = monitor.Take(t.Context(), pool)
	must.Succeed(t, err)
	if h := taken.Action(); h.Signal == "" || h.Elsewhere != 0 || h.Waiting == 0 {
		t.Errorf("with all waits: %+v", h)
	}
}

// Where the blockers could not be read, the headline does not say that nothing waits.
func TestActionWithoutBlockers(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	since := at.Add(-time.Minute)
	s := &monitor.Snapshot{TakenAt: at, Locks: []monitor.Lock{{Key: "@1", Waiters: []monitor.Waiter{
		{Session: monitor.Session{PID: 2}, WaitingSince: &since}, {Session: monitor.Session{PID: 3}}}}}}
	h := s.Action()
	if got := h.String(); h.Signal != "" || got != "2 waiters, longest wait 1m00s, for @1: it is unknown which sessions block them" {
		t.Errorf("got %q", got)
	}
}

func TestActionOfLocksInRows(t *testing.T) {
	db := registered(t, "invoice:42")
	pool := db.Pool(t)
	billing := rowLocker(t, pool, pglock.WithApplicationName("billing"))
	holdRow(t, billing, invoice)
	requireHeadline(t, pool, "Nothing waits. 1 lock held.")
	shop := rowLocker(t, pool, pglock.WithApplicationName("shop"))
	waitRow(t, shop, invoice)
	s := takeWaiting(t, pool, invoice, 1)
	testenv.WaitUntil(t, "the wait has lasted for a time", func() bool {
		s = takeWaiting(t, pool, invoice, 1)
		return s.Action().Longest > 0
	})
	h := s.Action()
	text := general(h.String())
	if want := ", holds invoice:42 (excl) in a row: frees at least 0, at most 1, longest wait AGE"; !strings.HasPrefix(text, "Terminate billing (process ") || !strings.HasSuffix(text, want) {
		t.Errorf("the headline is %q, want that billing %q", text, want)
	}
	if !strings.HasSuffix(h.Command(""), "--holder "+h.Whom[0].Lease.Holder) || h.Whom[0].Application != "billing" {
		t.Errorf("%+v", h)
	}
}

// The tree goes over several locks, and waits ahead of a shared one count.
func TestTreeOfLocksInRows(t *testing.T) {
	t.Parallel()
	db := registered(t, "invoice:42")
	pool := db.Pool(t)
	lockers := map[string]*pglock.Locker{}
	for _, name := range []string{"root", "middle", "last", "reader"} {
		lockers[name] = rowLocker(t, pool, pglock.WithApplicationName(name))
	}
	second := pglock.Int64Key(2)
	holdRow(t, lockers["root"], invoice, pglock.Shared())
	holdRow(t, lockers["middle"], second)
	waitRow(t, lockers["middle"], invoice)
	takeWaiting(t, pool, invoice, 1)
	waitRow(t, lockers["reader"], invoice, pglock.Shared()) // behind the exclusive wait
	takeWaiting(t, pool, invoice, 2)
	waitRow(t, lockers["last"], second)
	tree := takeWaiting(t, pool, second, 1).Tree().Of(inRow, nil)
	var got []string
	for depth, n := range tree.All() {
		got = append(got, strings.Repeat("  ", depth)+n.Application)
		if n.Deadlock || n.ID().Holder != n.Lease.Holder {
			t.Errorf("%+v", n)
		}
	}
	root := tree.Roots[0]
	label, mode, ok := root.Held()
	if root.Behind != 3 || label != "invoice:42 (row)" || mode != "shared" || !ok {
		t.Errorf("behind the root are %d; it holds %s (%s)", root.Behind, label, mode)
	}
	requireOrder(t, got, "root", "  middle", "    reader", "    last")
}

// What the role may not send is no command, and the headline says who may.
func TestActionThatTheRoleMayNotTake(t *testing.T) {
	s := newIdleSessions(t)
	s.session(appName("idler"), "SELECT pg_advisory_lock(7)")
	s.waits("SELECT pg_advisory_lock(7)")
	watcher := connectAs(t, s.db.Role(t, "watcher"))
	taken := requireHeadline(t, watcher, "Terminate N idler, holds @7 (excl): frees 1 (only a superuser may), longest wait AGE")
	if a := taken.Action(); a.Command("") != "" || a.Signal != "terminate" {
		t.Errorf("%+v, with the command %q", a, a.Command(""))
	}
}

// So it is for a process that uses locks in rows.
func TestActionThatNeedsARightOnSchemaPglock(t *testing.T) {
	db := testenv.Installed(t)
	watcher := connectAs(t, db.Role(t, "watcher"))
	execute(t, db.Connect(t), migrations.WatcherGrants(watcher.Config().User))
	pool := db.Pool(t)
	holdRow(t, rowLocker(t, pool, pglock.WithApplicationName("billing")), invoice)
	waitRow(t, rowLocker(t, pool), invoice)
	takeWaiting(t, pool, invoice, 1)
	s, err := monitor.Take(t.Context(), watcher)
	must.Succeed(t, err)
	if a := s.Action(); a.Command("") != "" || !strings.Contains(a.String(), "(only a role with EXECUTE on pglock.lease_terminate(text) may)") {
		t.Errorf("%s, with the command %q", a, a.Command(""))
	}
}

// Processes that must not be signalled, and long work, made by hand, as they take long to come by.
func TestActionsSpareTheServersProcessesAndLongWork(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	since := at.Add(-time.Minute)
	session := func(pid int32, application, state string) monitor.Session {
		return monitor.Session{PID: pid, User: "app", Application: application, BackendType: "client backend", State: state, Since: &since,
			StateSince: &since, TransactionSince: &since}
	}
	vacuum := monitor.Session{PID: 1, Application: "(autovacuum worker)", BackendType: "autovacuum worker", Query: "autovacuum: VACUUM public.orders (to prevent wraparound)"}
	wait := func(s monitor.Session, mode string, blocker int32, kind string) monitor.OtherWait {
		return monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Name: "orders"}, Waiter: monitor.Waiter{Session: s, Mode: mode,
			WaitingSince: &since, BlockedBy: monitor.Blockers{{PID: blocker, Kind: kind, Mode: "ShareUpdateExclusiveLock"}}}}
	}
	alter := wait(session(2, "flyway", "active"), "AccessExclusiveLock", 1, "hard")
	earlier, early := at.Add(-time.Hour), at.Add(-30*time.Minute)
	migration, index := session(2, "flyway", "active"), session(2, "index", "active")
	migration.StateSince, migration.TransactionSince, index.StateSince = &earlier, &earlier, &earlier
	report := monitor.Session{PID: 6, User: "app", Application: "report", State: "active", StateSince: &since, TransactionSince: &early}
	committing, older, bit := session(6, "shop", "active"), session(7, "older", "idle in transaction"), since.Add(-time.Second)
	committing.WaitEventType, committing.WaitEvent, older.TransactionSince = "IPC", "SyncRep", &bit
	held := []monitor.Lock{{Key: "@7", Holders: []monitor.Holder{{Session: session(4, "right", "active")}}}}
	for name, c := range map[string]struct {
		waits  []monitor.OtherWait
		others []monitor.Session
		want   string
	}{
		"an ALTER behind autovacuum": {[]monitor.OtherWait{alter}, []monitor.Session{vacuum},
			"1 waiter, longest wait 1m00s, for relation orders behind 1 (autovacuum worker): let it end: it prevents wraparound, so it would begin again at once"},
		"and readers behind the ALTER": {[]monitor.OtherWait{alter, wait(session(3, "web", "active"), "AccessShareLock", 2, "soft"),
			wait(session(4, "web", "active"), "AccessShareLock", 2, "soft")}, []monitor.Session{vacuum},
			"Cancel 2 flyway, which waits for relation orders (AccExcl) for 1m00s: frees 2, longest wait 1m00s"},
		"readers behind a migration that worked before it waits, in one text of many statements": {[]monitor.OtherWait{
			wait(migration, "AccessExclusiveLock", 6, "hard"), wait(session(3, "web", "active"), "AccessShareLock", 2, "soft")},
			[]monitor.Session{session(6, "idler", "idle in transaction")},
			"Terminate 6 idler, idle in transaction for 1m00s, holds relation orders (ShUpdExcl): frees 1, then 1 more, longest wait 1m00s"},
		"behind a long CREATE INDEX CONCURRENTLY, whose last transaction is young": {[]monitor.OtherWait{
			wait(index, "ShareLock", 6, "hard"), wait(session(3, "ddl", "active"), "ShareUpdateExclusiveLock", 2, "hard")},
			[]monitor.Session{report},
			"Terminate 6 report, active for 1m00s, holds relation orders (ShUpdExcl): frees 1, then 1 more, longest wait 1m00s"},
		"the commit at the root waits for a standby": {[]monitor.OtherWait{wait(session(3, "web", "active"), "ShareLock", 6, "hard")},
			[]monitor.Session{committing}, "1 waiter, longest wait 1m00s, for relation orders behind 6 shop: " +
				"its commit waits for a synchronous standby, as the next one will: mend that, or synchronous_standby_names"},
		"of two idle transactions of about the same age, the one with more waiters": {[]monitor.OtherWait{
			wait(session(3, "web", "active"), "ShareLock", 6, "hard"), wait(session(4, "web", "active"), "ShareLock", 7, "hard"),
			wait(session(5, "web", "active"), "ShareLock", 7, "hard")},
			[]monitor.Session{session(6, "idler", "idle in transaction"), older},
			"Terminate 7 older, idle in transaction for 1m00s, holds relation orders (ShUpdExcl): frees 2, longest wait 1m00s; 1 other waits"},
		"of two that would end a deadlock, the one that frees more, although it holds a lock": {[]monitor.OtherWait{
			wait(session(3, "left", "active"), "ShareLock", 4, "hard"), wait(session(4, "right", "active"), "ShareLock", 3, "hard"),
			wait(session(5, "web", "active"), "ShareLock", 4, "hard")}, nil,
			"Terminate 4 right, active for 1m00s, holds relation orders (ShUpdExcl): frees 2, longest wait 1m00s"},
		"what frees more, but others, is no other way": {[]monitor.OtherWait{
			wait(session(3, "web", "active"), "ShareLock", 7, "hard"), wait(session(4, "web", "active"), "ShareLock", 6, "hard"),
			wait(session(5, "web", "active"), "ShareLock", 6, "hard")}, []monitor.Session{report, older},
			"Terminate 7 older, idle in transaction for 1m00s, holds relation orders (ShUpdExcl): frees 1, longest wait 1m00s; 2 others wait"},
		"replay behind a report": {[]monitor.OtherWait{wait(monitor.Session{PID: 5, Application: "(startup)", BackendType: "startup"}, "AccessExclusiveLock", 6, "hard"),
			wait(session(7, "web", "active"), "AccessShareLock", 5, "soft")}, []monitor.Session{session(6, "report", "active")},
			"Terminate 6 report, active for 1m00s, holds relation orders (ShUpdExcl): frees 1, then 1 more, longest wait 1m00s"},
		"behind a Locker, whose session is idle while its locks are held": {[]monitor.OtherWait{wait(session(7, "web", "active"), "ShareLock", 5, "hard")},
			[]monitor.Session{{PID: 5, Application: "job (pglock 1f3a9c42)", Process: "1f3a9c42", State: "idle", StateSince: &since}},
			"Terminate 5 job, holds relation orders (ShUpdExcl): frees 1, longest wait 1m00s"},
		"behind replay": {[]monitor.OtherWait{wait(session(7, "web", "active"), "AccessShareLock", 5, "hard")},
			[]monitor.Session{{PID: 5, Application: "(startup)", BackendType: "startup"}},
			"1 waiter, longest wait 1m00s, for relation orders behind 5 (startup): the server needs it"},
	} {
		s := &monitor.Snapshot{TakenAt: at, OtherWaits: c.waits, OtherSessions: c.others, Locks: held}
		a := s.Action()
		if got := a.String(); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
		if command := a.Command(""); (a.Signal == "") != (command == "") {
			t.Errorf("%s: the command is %q", name, command)
		}
		if c, err := s.Target(vacuum.ID()); err == nil && !strings.Contains(strings.Join(c.Warnings("terminate"), ""), "begin again") {
			t.Errorf("the preview warns of %q only", c.Warnings("terminate"))
		}
	}
}
