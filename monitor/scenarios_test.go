package monitor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// sessionWithoutDeadlockCheck returns a session in which PostgreSQL does not end a deadlock during the test.
func sessionWithoutDeadlockCheck(t *testing.T, db *testenv.DB, statements ...string) *pgx.Conn {
	t.Helper()
	return session(t, db, append([]string{"SET deadlock_timeout = '1h'"}, statements...)...)
}

func TestSnapshotADeadlockThatPostgreSQLWillSee(t *testing.T) {
	db := registered(t, "left")
	left := sessionWithoutDeadlockCheck(t, db, lockNamed("left"))
	right := sessionWithoutDeadlockCheck(t, db, "SELECT pg_advisory_lock(2)")
	db.Queue(t, left, "SELECT pg_advisory_lock(2)")
	db.Queue(t, right, lockNamed("left"))
	startWaiter(t, db, "SELECT pg_advisory_lock(2)") // behind it, but not part of it

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	cycle := requireOneCycle(t, s)
	want := []monitor.Step{
		{PID: pidOf(left), Key: "@2", Database: db.Name(), BlockedBy: pidOf(right), Kind: "hard"},
		{PID: pidOf(right), Key: "left", Database: db.Name(), BlockedBy: pidOf(left), Kind: "hard"},
	}
	if want[1].PID < want[0].PID {
		slices.Reverse(want)
	}
	if !cycle.Certain || !slices.Equal(cycle.Steps, want) || cycle.Since == nil {
		t.Errorf("the cycle is %+v, want %+v", cycle, want)
	}
}

func requireOneCycle(t *testing.T, s *monitor.Snapshot) monitor.Cycle {
	t.Helper()
	if len(s.Cycles) != 1 {
		t.Fatalf("there are %d cycles, want 1: %+v", len(s.Cycles), s.Cycles)
	}
	return s.Cycles[0]
}

// Two processes that each hold one lock and wait for the other's, on different sessions: PostgreSQL sees two
// unrelated waits.
func TestSnapshotADeadlockThatPostgreSQLCannotSee(t *testing.T) {
	db := testenv.Database(t)
	of := func(process, statement string) *pgx.Conn {
		return session(t, db, fmt.Sprintf("SET application_name = 'worker (pglock %s)'", process), statement)
	}
	of("0000aaaa", "SELECT pg_advisory_lock(1)")
	of("0000bbbb", "SELECT pg_advisory_lock(2)")
	db.Queue(t, of("0000aaaa", "SELECT"), "SELECT pg_advisory_lock(2)")
	if s := take(t, db.Pool(t)); len(s.Cycles) > 0 {
		t.Errorf("there is a cycle already: %+v", s.Cycles)
	}
	db.Queue(t, of("0000bbbb", "SELECT"), "SELECT pg_advisory_lock(1)")

	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	cycle := requireOneCycle(t, s)
	var processes []string
	for _, step := range cycle.Steps {
		processes = append(processes, step.Process)
	}
	requireEqual(t, "processes of the cycle", processes, []string{"0000aaaa", "0000bbbb"})
	if cycle.Certain {
		t.Error("PostgreSQL would see it")
	}
}

// The ages say what holds back vacuum.
func TestSnapshotTheAgesOfSnapshotsAndTransactions(t *testing.T) {
	db := testenv.Database(t)
	execute(t, db.Pool(t), "CREATE TABLE work ()")
	idle := session(t, db, "SELECT pg_advisory_lock(1)")
	writer := session(t, db, "SELECT pg_advisory_lock(2)", "BEGIN", "INSERT INTO work DEFAULT VALUES")
	reader := session(t, db, "SELECT pg_advisory_lock(3)", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT")
	startWaiter(t, db, "SELECT pg_advisory_lock(1)")
	for range 3 {
		execute(t, db.Pool(t), "INSERT INTO work DEFAULT VALUES")
	}
	s := take(t, db.Pool(t))
	requireServerState(t, db, s)
	sessions := map[int32]monitor.Session{}
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			sessions[holder.PID] = holder.Session
		}
		for _, waiter := range lock.Waiters {
			if waiter.XminAge == nil || *waiter.XminAge < 3 {
				t.Errorf("the waiter's snapshot is %v transactions old", waiter.XminAge)
			}
		}
	}
	if s := sessions[pidOf(idle)]; s.XminAge != nil || s.XIDAge != nil {
		t.Errorf("an idle session holds vacuum back: %+v", s)
	}
	if s := sessions[pidOf(writer)]; s.XminAge != nil || s.XIDAge == nil || *s.XIDAge < 3 {
		t.Errorf("the writer's ages are %v and %v", s.XminAge, s.XIDAge)
	}
	if s := sessions[pidOf(reader)]; s.XIDAge != nil || s.XminAge == nil || *s.XminAge < 3 {
		t.Errorf("the reader's ages are %v and %v", s.XminAge, s.XIDAge)
	}
}

// A session's identity is not shown as a lock. The companion of a guarded transaction is, with a name.
func TestSnapshotAGuardedLockLooksLikeOneLock(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	locker, err := pglock.New(pool)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, locker.Close(context.Background())) }()
	lock, err := locker.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	defer func() { must.Succeed(t, lock.Unlock(context.Background())) }()
	tx, err := pool.Begin(t.Context())
	must.Succeed(t, err)
	defer func() { must.Succeed(t, tx.Rollback(context.Background())) }()
	must.Succeed(t, lock.GuardTx(t.Context(), tx))

	s, err := monitor.Take(t.Context(), db.Connect(t))
	must.Succeed(t, err)
	var labels []string
	for _, lock := range s.Locks {
		labels = append(labels, lock.Label())
	}
	requireEqual(t, "labels", labels, []string{rawKey("invoice:42"), "probably transactions guarded by the lock of " + rawKey("invoice:42")})
	if n := len(db.AdvisoryLocks(t)); n != 2 || s.Capacity.Advisory != 3 {
		t.Errorf("the server has %d advisory locks besides identities, the snapshot counts %d, want 2 and 3", n, s.Capacity.Advisory)
	}
}

const selectUse = `
SELECT count(*) FROM (SELECT DISTINCT locktype, database, relation, page, tuple, virtualxid, transactionid, classid,
    objid, objsubid FROM pg_locks
    WHERE NOT fastpath AND mode <> 'SIReadLock' AND pid IS DISTINCT FROM pg_backend_pid()) entry`

func TestSnapshotTheUseOfTheLockTable(t *testing.T) {
	db := testenv.Database(t)
	hog := session(t, db,
		"DO $$ BEGIN FOR n IN 1..40 LOOP EXECUTE format('CREATE TABLE t%s ()', n); END LOOP; END $$", "BEGIN",
		"DO $$ BEGIN FOR n IN 1..40 LOOP EXECUTE format('LOCK TABLE t%s', n); END LOOP; END $$")
	holder := session(t, db, "SELECT pg_advisory_lock(n), pg_advisory_lock_shared(n) FROM generate_series(1, 20) n")
	session(t, db, "SELECT pg_advisory_lock_shared(100)")
	session(t, db, "SELECT pg_advisory_lock_shared(100)")

	pool := db.Pool(t)
	var s *monitor.Snapshot
	testenv.WaitUntil(t, "the snapshot counts as pg_locks does", func() bool {
		s = take(t, pool)
		used := must.One[int64](t, pool, selectUse)
		return s.Capacity.Used == used
	})
	c := s.Capacity
	if c.Advisory != 21 || c.Used < 61 {
		t.Errorf("%d advisory locks of %d, want 21 of at least 61", c.Advisory, c.Used)
	}
	var perTransaction, connections, prepared int64
	must.Succeed(t, pool.QueryRow(t.Context(), "SELECT current_setting('max_locks_per_transaction')::int8, "+
		"current_setting('max_connections')::int8, current_setting('max_prepared_transactions')::int8").
		Scan(&perTransaction, &connections, &prepared))
	if c.Nominal != perTransaction*(connections+prepared) || c.MaxConnections != connections {
		t.Errorf("nominal is %d, want %d × (%d + %d)", c.Nominal, perTransaction, connections, prepared)
	}
	if len(c.Top) < 3 || c.Top[0].PID != pidOf(hog) || c.Top[0].Locks < 40 || c.Top[0].Query == "" ||
		c.Top[1].PID != pidOf(holder) || c.Top[1].Locks != 40 {
		t.Errorf("the sessions with the most locks are %+v", c.Top)
	}
}

func TestSnapshotProcessesAreRecognised(t *testing.T) {
	db := testenv.Database(t)
	for application, want := range map[string]string{
		"payroll (pglock 1f3a9c42)": "1f3a9c42",
		"(pglock 00000000)":         "00000000",
		"payroll (pglock)":          "",
		"payroll (pglock 1F3A9C42)": "",
		"(pglock 1f3a9c42) payroll": "",
		"pglock 1f3a9c42":           "",
	} {
		conn := session(t, db, "SET application_name = '"+application+"'", "SELECT pg_advisory_lock(1)")
		holder := find(t, take(t, db.Pool(t)), pglock.Int64Key(1)).Holders[0]
		if holder.Application != application || holder.Process != want {
			t.Errorf("%q is of process %q, want %q", application, holder.Process, want)
		}
		execute(t, conn, "SELECT pg_advisory_unlock_all()")
	}
}

func TestSnapshotAnotherDatabasesLocksAreCounted(t *testing.T) {
	here, there := testenv.Database(t), testenv.Database(t)
	session(t, there, "SELECT pg_advisory_lock(-7, 42)")
	session(t, here, "SELECT pg_advisory_lock(-7, 42)")
	if s := take(t, here.Pool(t)); s.Capacity.Advisory != 2 || len(s.Locks) != 2 ||
		!strings.HasPrefix(s.Locks[0].Database, here.Name()) {
		t.Errorf("got %+v", s)
	}
}
