package monitor_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

var (
	age    = regexp.MustCompile(`\b([0-9.]+(ms|s)|[0-9]+m[0-9]+s)\b`)
	number = regexp.MustCompile(`\b[0-9]{3,}\b`)
)

// general replaces the times and process IDs of a text.
func general(text string) string {
	return number.ReplaceAllString(age.ReplaceAllString(text, "AGE"), "N")
}

// requireHeadline waits for a headline, since a lock can be seen a moment after it is taken.
func requireHeadline(t *testing.T, db monitor.DBTX, want string, opts ...monitor.Option) (s *monitor.Snapshot) {
	t.Helper()
	var got string
	testenv.WaitUntil(t, "the headline "+want, func() bool {
		var err error
		s, err = monitor.Take(t.Context(), db, opts...)
		must.Succeed(t, err)
		if text := general(s.Headline().String()); text != got {
			got = text
			t.Logf("the headline is %s", got)
		}
		return got == want
	})
	return s
}

// At the root is the session with the table, not the one that holds the key.
func TestHeadlineNamesTheRoot(t *testing.T) {
	s := newIdleSessions(t)
	pool := s.db.Pool(t)
	requireHeadline(t, pool, "Nothing waits. No locks held.")
	owner := s.session("SET application_name = 'ddl-owner'", "BEGIN", "-- why\nLOCK  TABLE t")
	requireHeadline(t, pool, "Nothing waits. No locks held.")
	job := s.waits("SELECT * FROM t", "SELECT pg_advisory_lock(3333)")
	s.waits("SELECT pg_advisory_lock(3333)")
	other := s.session("SET application_name = 'other'", "SELECT pg_advisory_lock(1)")
	s.waits("SELECT pg_advisory_lock(1)")
	taken := requireHeadline(t, pool,
		"N ddl-owner, idle in transaction for AGE, holds relation t (AccExcl): frees 2, longest wait AGE; 1 more root")
	h := taken.Headline()
	if h.Root.PID != pidOf(owner) || h.Ref != inspect(t, pool, pidOf(owner)).Ref || h.Statement() != "LOCK TABLE t" ||
		h.Waiting != 3 || h.Held != 2 {
		t.Errorf("the headline is %+v, with %q", h, h.Statement())
	}
	one := taken.HeadlineOf(func(l *monitor.Lock) bool { return l.Number == 1 }, nil)
	if one.Root == nil || one.Root.PID != pidOf(other) || one.More != 0 || one.Held != 1 || one.Waiting != 1 {
		t.Errorf("of the key 1 the headline is %v: %+v", one, one)
	}
	chain := taken.HeadlineOf(func(l *monitor.Lock) bool { return l.Number == 3333 }, nil)
	if chain.Root == nil || chain.Root.PID != pidOf(owner) || chain.Root.Children[0].PID != job {
		t.Errorf("of the key 3333 the headline is %v", chain)
	}
}

// To end one of two that share a lock frees nothing.
func TestHeadlineOfASharedLockFreesNothing(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SET application_name = 'reader'", "SELECT pg_advisory_lock_shared(9)")
	second := session(t, db, "SET application_name = 'reader'", "SELECT pg_advisory_lock_shared(9)")
	startWaiter(t, db, "SELECT pg_advisory_lock(9)")
	requireHeadline(t, db.Pool(t), "N reader, idle for AGE, holds @9 (shared): frees 0, longest wait AGE; 1 more root")
	execute(t, second, "SELECT pg_advisory_unlock_shared(9)")
	requireHeadline(t, db.Pool(t), "N reader, idle for AGE, holds @9 (shared): frees 1, longest wait AGE")
}

func TestHeadlineOfADeadlock(t *testing.T) {
	db := testenv.Database(t)
	left := sessionWithoutDeadlockCheck(t, db, "SELECT pg_advisory_lock(1)")
	right := sessionWithoutDeadlockCheck(t, db, "SELECT pg_advisory_lock(2)")
	db.Queue(t, left, "SELECT pg_advisory_lock(2)")
	db.Queue(t, right, "SELECT pg_advisory_lock(1)")
	session(t, db, "SELECT pg_advisory_lock(3)")
	for range 3 { // more behind it, but no deadlock
		startWaiter(t, db, "SELECT pg_advisory_lock(3)")
	}
	s := requireHeadline(t, db.Pool(t), "deadlock for AGE: N waits for @2 behind N, N waits for @1 behind N; to end N TestHeadlineOfADeadlock: frees 1, longest wait AGE; 1 more root")
	if h := s.Headline(); h.Cycle == nil || h.Root.PID != min(pidOf(left), pidOf(right)) || h.Ref != h.Root.SessionRef() {
		t.Errorf("%+v", h)
	}
}

func TestHeadlineOfAPreparedTransaction(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "BEGIN", "SELECT pg_advisory_xact_lock(7)", "PREPARE TRANSACTION 'it''s late'")
	startWaiter(t, db, "SELECT pg_advisory_lock(7)")
	pool := db.Pool(t)
	s := requireHeadline(t, pool, `prepared transaction "it's late", AGE old, holds @7 (excl): frees 1, longest wait AGE`)
	if h := s.Headline(); h.Ref != "" || h.Root.RollbackSQL() != "ROLLBACK PREPARED 'it''s late'" {
		t.Errorf("%+v, %s", h, h.Root.RollbackSQL())
	}
	execute(t, pool, "ROLLBACK PREPARED 'it''s late'")
}

// Candidates of an election wait for as long as the leader leads. That is no incident.
func TestHeadlineLeavesElectionsOut(t *testing.T) {
	db := testenv.Database(t)
	migrate(t, db)
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
	h := requireHeadline(t, pool, "Nothing waits but 2 for elections, permits and runs of jobs. 2 locks held.").Headline()
	if h.Waiting != 0 || h.Expected != 2 || h.Root != nil {
		t.Errorf("%+v", h)
	}
	session(t, db, "SELECT pg_advisory_lock(7)")
	startWaiter(t, db, "SELECT pg_advisory_lock(7)")
	requireHeadline(t, pool, "N TestHeadlineLeavesElectionsOut, idle for AGE, holds @7 (excl): frees 1, longest wait AGE")
	cancel()
	for range cap(ended) {
		<-ended
	}
}

// Silence about advisory locks is not health.
func TestHeadlineCountsWaitsElsewhere(t *testing.T) {
	s := newIdleSessions(t)
	pool := s.db.Pool(t)
	s.session("BEGIN", "LOCK TABLE t")
	s.waits("SELECT * FROM t")
	h := take(t, pool).Headline()
	if text := h.String(); h.Elsewhere == 0 || !strings.Contains(text, "without an advisory lock (--all)") {
		t.Errorf("%s: %+v", text, h)
	}
	taken, err := monitor.Take(t.Context(), pool, monitor.WithAllWaits())
	must.Succeed(t, err)
	if h := taken.Headline(); h.Root == nil || h.Elsewhere != 0 || h.Waiting == 0 {
		t.Errorf("with all waits: %+v", h)
	}
}

// Where the blockers could not be read, the headline does not say that nothing waits.
func TestHeadlineWithoutBlockers(t *testing.T) {
	t.Parallel()
	s := queue(3)
	for i := range s.Locks[0].Waiters {
		s.Locks[0].Waiters[i].BlockedBy = nil
	}
	h := s.Headline()
	if got := h.String(); h.Root != nil || got != "3 waits, longest wait 16m38s for @1; it is unknown which sessions block them" {
		t.Errorf("got %q", got)
	}
}

func TestHeadlineOfLocksInRows(t *testing.T) {
	db := testenv.Database(t)
	migrate(t, db, "invoice:42")
	pool := db.Pool(t)
	billing := rowLocker(t, pool, pglock.WithApplicationName("billing"))
	holdRow(t, billing, invoice)
	requireHeadline(t, pool, "Nothing waits. 1 lock held.")
	shop := rowLocker(t, pool, pglock.WithApplicationName("shop"))
	waitRow(t, shop, invoice)
	s := takeWaiting(t, pool, invoice, 1)
	testenv.WaitUntil(t, "the wait has lasted for a time", func() bool {
		s = takeWaiting(t, pool, invoice, 1)
		return s.Headline().Longest > 0
	})
	h := s.Headline()
	text := general(h.String())
	if want := "holds invoice:42 (excl) in a row for AGE: frees 1, longest wait AGE"; !strings.HasPrefix(text, "billing (process ") || !strings.HasSuffix(text, want) {
		t.Errorf("the headline is %q, want that billing %q", text, want)
	}
	if h.Root.Lease == nil || h.Root.Application != "billing" || h.Ref != h.Root.Lease.Holder || h.Root.Prepared() || h.Statement() != "" {
		t.Errorf("%+v", h)
	}
}

// The tree goes over several locks, and waits ahead of a shared one count.
func TestTreeOfLocksInRows(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	migrate(t, db, "invoice:42")
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
	s := takeWaiting(t, pool, second, 1)
	var got []string
	for depth, n := range s.Tree().All() {
		got = append(got, strings.Repeat("  ", depth)+n.Application)
		if n.Deadlock || n.ID().Holder != n.Lease.Holder {
			t.Errorf("%+v", n)
		}
	}
	root := s.Tree().Roots[0]
	label, mode, ok := root.Held()
	if root.Behind != 3 || label != "invoice:42 (row)" || mode != "shared" || !ok {
		t.Errorf("behind the root are %d; it holds %s (%s)", root.Behind, label, mode)
	}
	requireOrder(t, got, "root", "  middle", "    reader", "    last")
}
