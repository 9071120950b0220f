package monitor_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestServerTakeWorksThroughATransactionPooler(t *testing.T) {
	db := testenv.Database(t)
	session(t, db, "SELECT pg_advisory_lock(1)")
	startWaiter(t, db, "SELECT pg_advisory_lock(1)")
	config, err := pgxpool.ParseConfig(testenv.PgBouncer(t, db, testenv.TransactionPooling))
	must.Succeed(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // named statements need PgBouncer 1.21
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)

	requireServerState(t, db, take(t, pool))
	if timeout := value(t, pool, "SELECT current_setting('statement_timeout')"); timeout != "0" {
		t.Errorf("the pooled server session was left with statement_timeout = %s", timeout)
	}
}

func TestServerTimesAreReadInEveryStyleOfDates(t *testing.T) {
	db := testenv.Database(t)
	execute(t, db.Connect(t), "ALTER DATABASE "+db.Name()+" SET datestyle = 'German'")
	for _, mode := range queryModes {
		pool := poolIn(t, db, mode)
		if style := value(t, pool, "SHOW datestyle"); style != "German, DMY" {
			t.Fatalf("the style is %s", style)
		}
		if s := take(t, pool); s.TakenAt.IsZero() {
			t.Errorf("%v: no time", mode)
		}
	}
}

// The owner of a database can set costs so high that the server compiles every statement for seconds.
func TestServerTakeWorksWhereTheServerCompilesEverything(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	for _, setting := range []string{"jit_above_cost", "jit_optimize_above_cost", "jit_inline_above_cost"} {
		execute(t, admin, "ALTER DATABASE "+db.Name()+" SET "+setting+" = 0")
	}
	session(t, db, "SELECT pg_advisory_lock(1)")
	requireServerState(t, db, take(t, db.Pool(t)))
}

func TestServerAHotStandbyShowsItsOwnLocks(t *testing.T) {
	t.Parallel()
	primary := testenv.NewServer(t, nil)
	standby, err := primary.Standby(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, standby.Stop()) })
	config, err := pgx.ParseConfig(standby.ConnString("postgres"))
	must.Succeed(t, err)
	config.Host = standby.SocketDir()
	connect := func(to *pgx.ConnConfig) *pgx.Conn {
		conn, err := pgx.ConnectConfig(t.Context(), to)
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, conn.Close(context.Background())) })
		return conn
	}
	conn := connect(config)
	execute(t, conn, "SELECT pg_advisory_lock(7, 8)")

	for _, setting := range []string{"", "SET default_transaction_isolation = 'repeatable read'"} {
		execute(t, conn, setting)
		holder := find(t, take(t, conn), pglock.PairKey(7, 8)).Holders[0]
		if holder.PID != pidOf(conn) || holder.Client != "[local]" {
			t.Errorf("the holder is %+v", holder)
		}
	}

	// Replay waits for a report, though for no lock.
	execute(t, connect(config), appName("report"), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1")
	config, err = pgx.ParseConfig(primary.ConnString("postgres"))
	must.Succeed(t, err)
	execute(t, connect(config), "CREATE TABLE t AS SELECT 1 AS v", "UPDATE t SET v = 2", "VACUUM t")
	requireHeadline(t, conn, "Terminate N report, idle in transaction for AGE, holds oldest snapshot: "+
		"frees at least 0, at most 1 (the next blocker is not known)")
}

func TestServerErrorsSayWhereAndKeepThePassword(t *testing.T) {
	db := testenv.Database(t)
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	_, port, err := net.SplitHostPort(nowhere.Addr().String())
	must.Succeed(t, err)
	must.Succeed(t, nowhere.Close())

	unreachable, err := pgxpool.ParseConfig("host=127.0.0.1 port=" + port +
		" dbname=shop user=dba password=s3cret sslmode=disable")
	must.Succeed(t, err)
	refused := db.Config(t)
	refused.ConnConfig.Password = "s3cret" // wrong unless the server trusts every connection
	refused.ConnConfig.Database += "_missing"
	for name, config := range map[string]*pgxpool.Config{"unreachable": unreachable, "refused": refused} {
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		_, err = monitor.Take(t.Context(), pool)
		pool.Close()
		var connectError *pgconn.ConnectError
		if !errors.As(err, &connectError) {
			t.Fatalf("%s: got %v, want a pgconn.ConnectError", name, err)
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || !strings.Contains(text, config.ConnConfig.Database) {
			t.Errorf("%s: the error is %s", name, text)
		}
	}
}

func TestServerABrokenConnectionIsAnErrorThatNamesTheServer(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	execute(t, db.Pool(t), "SELECT pg_terminate_backend("+value(t, conn, "SELECT pg_backend_pid()::text")+")")
	for range 2 {
		if _, err := monitor.Take(t.Context(), conn); err == nil || !strings.Contains(err.Error(), db.Name()) {
			t.Errorf("got %v, want an error that names the database", err)
		}
	}
}

func TestServerNoConnectionIsAnError(t *testing.T) {
	if s, err := monitor.Take(t.Context(), nil); err == nil || s != nil {
		t.Errorf("got %v and %v, want an error", s, err)
	}
}

func TestServerAMonitorThatWaitsForACatalogGivesUpAndSaysWhy(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	take(t, conn) // prepares the statements
	upgrade := session(t, db, "BEGIN", "LOCK TABLE pg_catalog.pg_locks")
	_, err := monitor.Take(t.Context(), conn)
	if err == nil || !strings.Contains(err.Error(), "lock timeout") || !strings.Contains(err.Error(), "500ms to wait") {
		t.Errorf("got %v, want an error about the monitor's limits", err)
	}
	execute(t, upgrade, "ROLLBACK")
	take(t, conn)
}
