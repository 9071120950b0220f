package monitor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var queryModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement,
	pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec,
	pgx.QueryExecModeSimpleProtocol,
}

// take takes a snapshot, which must work. It tries again if the server runs out of time, as on a busy machine.
func take(t testing.TB, db pglock.DB) *monitor.Snapshot {
	t.Helper()
	for range 10 {
		snapshot, err := monitor.Take(t.Context(), db)
		if err == nil && !strings.Contains(snapshot.RowLocksMissing+snapshot.NamesMissing, "statement timeout") {
			return snapshot
		}
		if err != nil && sqlstate.Of(err) != sqlstate.QueryCanceled {
			t.Fatal(err)
		}
		t.Logf("asked again after: %v", err)
	}
	t.Fatal("no snapshot in ten tries")
	return nil
}

// find returns a lock that must be in the snapshot.
func find(t testing.TB, s *monitor.Snapshot, key pglock.Key) monitor.Lock {
	t.Helper()
	lock, ok := s.Find(key)
	if !ok {
		t.Fatalf("no lock %v in the snapshot", key)
	}
	return lock
}

// session returns a connection to db that has executed statements.
func session(t testing.TB, db *testenv.DB, statements ...string) *pgx.Conn {
	t.Helper()
	conn := db.Connect(t)
	execute(t, conn, statements...)
	return conn
}

// executor is a pool or a connection.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func value(t testing.TB, db executor, query string) (text string) {
	t.Helper()
	must.Succeed(t, db.QueryRow(t.Context(), query).Scan(&text))
	return text
}

func execute(t testing.TB, db executor, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// startWaiter makes another session wait for the lock of statement, behind the present waiters, until the test ends.
func startWaiter(t testing.TB, db *testenv.DB, statement string) (pid int32) {
	t.Helper()
	conn := db.Connect(t)
	db.Queue(t, conn, statement)
	return pidOf(conn)
}

func pidOf(conn *pgx.Conn) int32 { return int32(conn.PgConn().PID()) }

// connectAs connects as another role.
func connectAs(t testing.TB, connString string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // may be broken by the test
	return conn
}

// poolIn returns a pool whose connections use a query mode.
func poolIn(t testing.TB, db *testenv.DB, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config := db.Config(t)
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// registered returns a database with schema pglock and the names.
func registered(t testing.TB, names ...string) *testenv.DB {
	t.Helper()
	db := testenv.Installed(t)
	register(t, db, names...)
	return db
}

func register(t testing.TB, db *testenv.DB, names ...string) {
	t.Helper()
	_, err := db.Pool(t).Exec(t.Context(), "SELECT pglock.register(VARIADIC $1)", names)
	must.Succeed(t, err)
}

// requireServerState compares a snapshot of db's own locks with what pg_locks and pg_blocking_pids show to another
// session.
func requireServerState(t testing.TB, db *testenv.DB, s *monitor.Snapshot) {
	t.Helper()
	requireEqual(t, "locks", locksOf(db, s), lines(db.AdvisoryLocks(t)))
	requireEqual(t, "edges of the wait graph", edgesOf(db, s), serverEdges(t, db))
}

func requireEqual(t testing.TB, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s of the snapshot:\n  %s\nwant, from the server:\n  %s",
			what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func lines[T fmt.Stringer](values []T) []string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = value.String()
	}
	return texts
}

// locksOf turns a snapshot back into the rows of pg_locks.
func locksOf(db *testenv.DB, s *monitor.Snapshot) []string {
	lockmode := map[string]string{"shared": "ShareLock", "exclusive": "ExclusiveLock"}
	var rows []testenv.Lock
	for _, lock := range s.Locks {
		if lock.Database != db.Name() {
			continue
		}
		for _, h := range lock.Holders {
			rows = append(rows, testenv.Lock{
				Key: lock.Number, ObjSubID: lock.Objsubid, Mode: lockmode[h.Mode], Granted: true, PID: h.PID})
		}
		for _, w := range lock.Waiters {
			rows = append(rows, testenv.Lock{
				Key: lock.Number, ObjSubID: lock.Objsubid, Mode: lockmode[w.Mode], PID: w.PID})
		}
	}
	return lines(rows)
}

type edge struct {
	Waiter, Blocker int32
	Hard            bool
}

func (e edge) String() string {
	kind := "soft"
	if e.Hard {
		kind = "hard"
	}
	return fmt.Sprintf("%d waits for %d (%s)", e.Waiter, e.Blocker, kind)
}

func edgesOf(db *testenv.DB, s *monitor.Snapshot) []string {
	var edges []edge
	for wait := range s.Waits() {
		lock, waiter := wait.Lock, wait.Waiter
		if lock == nil {
			continue
		}
		for _, blocker := range waiter.BlockedBy {
			if lock.Database == db.Name() {
				edges = append(edges, edge{waiter.PID, blocker.PID, blocker.Kind == "hard"})
			}
		}
	}
	return slices.Compact(lines(edges)) // a pid of 0 can mean several prepared transactions
}

// An exclusive lock conflicts with every other, and two shared ones do not. Those ahead count if no holder is in the way.
const selectEdges = `
SELECT e.waiter, e.blocker, e.hard FROM (
    SELECT w.pid AS waiter, b.pid AS blocker, h.hard, bool_or(h.hard) OVER (PARTITION BY w.pid) AS any_hard
    FROM pg_locks w JOIN pg_database d ON d.oid = w.database,
         LATERAL (SELECT DISTINCT unnest(pg_blocking_pids(w.pid)) AS pid) b,
         LATERAL (SELECT EXISTS (
            SELECT FROM pg_locks h
            WHERE h.locktype = 'advisory' AND h.granted AND coalesce(h.pid, 0) = b.pid
              AND (h.database, h.classid, h.objid, h.objsubid) = (w.database, w.classid, w.objid, w.objsubid)
              AND 'ExclusiveLock' IN (h.mode, w.mode)) AS hard) h
    WHERE w.locktype = 'advisory' AND NOT w.granted AND d.datname = $1) e
WHERE e.hard = e.any_hard`

func serverEdges(t testing.TB, db *testenv.DB) []string {
	t.Helper()
	rows, err := db.Pool(t).Query(t.Context(), selectEdges, db.Name())
	must.Succeed(t, err)
	edges, err := pgx.CollectRows(rows, pgx.RowToStructByPos[edge])
	must.Succeed(t, err)
	return lines(edges)
}

// rawKey returns the key of a name that is not known.
func rawKey(name string) string { return pglock.Int64Key(pglock.NewKey(name).Int64()).String() }

func requireOrder(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("drawn is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
