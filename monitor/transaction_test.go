package monitor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

var (
	_ monitor.DBTX = (*pgxpool.Pool)(nil)
	_ monitor.DBTX = (*pgxpool.Conn)(nil)
	_ monitor.DBTX = (*pgxpool.Tx)(nil)
	_ monitor.DBTX = (*pgx.Conn)(nil)
	_ monitor.DBTX = pgx.Tx(nil)
)

// wrapper hides the type of a DBTX.
type wrapper struct{ monitor.DBTX }

// slowServer wraps a connection to a server whose pg_blocking_pids does not return.
type slowServer struct{ monitor.DBTX }

func (s slowServer) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == monitordb.Blockers {
			query.SQL, query.Arguments = "SELECT pg_sleep(3600)", nil
		}
	}
	return s.DBTX.SendBatch(ctx, batch)
}

func TestTransactionTakeLeavesATransactionAsItWas(t *testing.T) {
	ways := map[string]func(tx pgx.Tx) monitor.DBTX{
		"the transaction":                 func(tx pgx.Tx) monitor.DBTX { return tx },
		"its connection":                  func(tx pgx.Tx) monitor.DBTX { return tx.Conn() },
		"a wrapper":                       func(tx pgx.Tx) monitor.DBTX { return wrapper{tx} },
		"a wrapper, and names are locked": func(tx pgx.Tx) monitor.DBTX { return wrapper{tx} },
	}
	for name, from := range ways {
		t.Run(name, func(t *testing.T) {
			db := registered(t, "job")
			execute(t, db.Pool(t), "CREATE TABLE work (step text)")
			session(t, db, lockNamed("job"))
			if strings.Contains(name, "names are locked") {
				session(t, db, "BEGIN", "LOCK TABLE pglock.names")
			}
			for _, mode := range queryModes {
				execute(t, db.Pool(t), "TRUNCATE work")
				tx, err := poolIn(t, db, mode).Begin(t.Context())
				must.Succeed(t, err)
				defer func() { _ = tx.Rollback(context.Background()) }() // if the test fails
				execute(t, tx, "SET LOCAL statement_timeout = '7s'", "SET LOCAL lock_timeout = '50ms'",
					"SAVEPOINT pglock_monitor", "INSERT INTO work VALUES ('before')")
				for range 2 {
					s := take(t, from(tx))
					requireServerState(t, db, s)
					find(t, s, pglock.NewKey("job"))
				}
				if got, want := value(t, tx, "SELECT current_setting('statement_timeout') || current_setting('lock_timeout')"),
					"7s50ms"; got != want {
					t.Errorf("%v: the timeouts are %s, want %s", mode, got, want)
				}
				execute(t, tx, "INSERT INTO work VALUES ('after')")
				must.Succeed(t, tx.Commit(t.Context()))
				if got := value(t, db.Pool(t), "SELECT string_agg(step, ' then ') FROM work"); got != "before then after" {
					t.Errorf("%v: the transaction's work is %q", mode, got)
				}
			}
		})
	}
}

func value(t testing.TB, db monitor.DBTX, query string) (text string) {
	t.Helper()
	must.Succeed(t, db.QueryRow(t.Context(), query).Scan(&text))
	return text
}

func TestTransactionTheCallersOwnSavepointOfOurNameSurvives(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "CREATE TABLE work (step text)",
		"BEGIN", "SAVEPOINT pglock_monitor", "INSERT INTO work VALUES ('x')")
	take(t, conn)
	execute(t, conn, "ROLLBACK TO SAVEPOINT pglock_monitor", "COMMIT")
	if got := value(t, conn, "SELECT count(*)::text FROM work"); got != "0" {
		t.Errorf("%s rows are left, want none", got)
	}
}

// PostgreSQL shows a transaction the sessions as it first saw them.
func TestTransactionASecondSnapshotInATransactionIsFresh(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "BEGIN", "SELECT pg_advisory_lock(2)")
	take(t, conn)
	holder := session(t, db, "SELECT pg_advisory_lock(1)")
	s := take(t, conn)
	requireActivity(t, db, find(t, s, pglock.Int64Key(1)).Holders[0].Session, pidOf(holder))
}

func TestTransactionLocksAreReadWithoutBlockersOnASlowServer(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SELECT pg_advisory_lock(1)")
	startWaiter(t, db, "SELECT pg_advisory_lock(1)")
	conn := session(t, db, "BEGIN")
	for name, from := range map[string]monitor.DBTX{"pool": db.Pool(t), "transaction": conn} {
		s := take(t, slowServer{from})
		requireEqual(t, "locks", locksOf(db, s), lines(db.AdvisoryLocks(t)))
		if !strings.Contains(s.BlockersMissing, "statement timeout") {
			t.Errorf("%s: the reason is %q", name, s.BlockersMissing)
		}
		if edges := edgesOf(db, s); len(edges) != 0 {
			t.Errorf("%s: unexpected edges: %v", name, edges)
		}
	}
	requireServerState(t, db, take(t, conn))
}

func TestTransactionAFailedTransactionIsAnError(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "BEGIN")
	if _, err := conn.Exec(t.Context(), "SELECT 1/0"); err == nil {
		t.Fatal("1/0 worked")
	}
	for _, from := range []monitor.DBTX{conn, wrapper{conn}} {
		_, err := monitor.Take(t.Context(), from)
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.Code != "25P02" {
			t.Errorf("got %v, want an error that says that the transaction has failed", err)
		}
	}
}

func TestTransactionAnEndedContextLeavesTheTransactionUsable(t *testing.T) {
	db := testenv.Database(t)
	conn := session(t, db, "BEGIN")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := monitor.Take(ctx, conn); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	requireServerState(t, db, take(t, conn))
}
