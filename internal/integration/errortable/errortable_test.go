package errortable

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// errorCall is a call in a caller's transaction. Calls of database/sql have an open function of their own.
type errorCall struct {
	name   string
	waits  bool // for errorKey
	writes bool
	pgx    func(ctx context.Context, e *errorEnv, tx pgx.Tx) error
	sql    func(ctx context.Context, e *errorEnv, tx *sql.Tx) error
}

// errorEnv is what the calls use.
type errorEnv struct {
	db   *testenv.DB
	lock *pglock.Lock // of errorGuard
}

var (
	errorKey   = pglock.NewKey("once:scope/id") // of every call that waits, except GuardTx
	errorGuard = pglock.NewKey("guard")
	errorQuery = "-- name: Touch :exec\nSELECT 1"
	errorSet   = querylock.NewSet([]string{"once:scope/id"}, []querylock.Query{
		{Name: "Touch", Digest: querylock.Digest(errorQuery), Locks: []string{"once:scope/id"}}})
)

var errorCalls = []errorCall{
	{name: "LockTx", waits: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, errorKey)
	}},
	{name: "TryLockTx", pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		return pglock.TryLockTx(ctx, tx, pglock.Int64Key(1))
	}},
	{name: "LockTx with MaxWait", pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		return pglock.LockTx(ctx, tx, pglock.Int64Key(1), pglock.MaxWait(time.Minute))
	}},
	{name: "LockAllTx", waits: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		return pglock.LockAllTx(ctx, tx, []pglock.Key{errorKey, pglock.PairKey(1, 2)})
	}},
	{name: "QueueLockTx", waits: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		pglock.QueueLockTx(batch, errorKey)
		return pglock.TxError(tx.SendBatch(ctx, batch).Close())
	}},
	{name: "QueueLockTx, read by hand", waits: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		pglock.QueueLockTx(batch, errorKey).Fn = nil
		return pglock.TxError(tx.SendBatch(ctx, batch).Close())
	}},
	{name: "once.Tx", waits: true, writes: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		return onceScope.Tx(ctx, tx, "id")
	}},
	{name: "once.Result", waits: true, writes: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		_, _, err := once.Result(ctx, tx, onceScope, "id", func(pgx.Tx) (int, error) { return 1, nil })
		return err
	}},
	{name: "GuardTx", pgx: func(ctx context.Context, e *errorEnv, tx pgx.Tx) error { return e.lock.GuardTx(ctx, tx) }},
	{name: "querylock", waits: true, pgx: func(ctx context.Context, _ *errorEnv, tx pgx.Tx) error {
		_, err := errorSet.Tx(tx).Exec(ctx, errorQuery)
		return err
	}},
	{name: "sqltx.LockTx", waits: true, sql: func(ctx context.Context, _ *errorEnv, tx *sql.Tx) error {
		return sqltx.LockTx(ctx, tx, errorKey)
	}},
	{name: "sqltx.TryLockTx of a struct", sql: func(ctx context.Context, _ *errorEnv, tx *sql.Tx) error {
		return sqltx.TryLockTx(ctx, struct{ sqltx.Tx }{tx}, pglock.Int64Key(1))
	}},
	{name: "sqltx.GuardTx", sql: func(ctx context.Context, e *errorEnv, tx *sql.Tx) error { return sqltx.GuardTx(ctx, e.lock, tx) }},
}

// errorTx begins a transaction on a connection of its own, and returns the call in it and the server process.
func (e *errorEnv) errorTx(t *testing.T, call errorCall, driver string, statements ...string) (run func(context.Context) error, pid int32) {
	t.Helper()
	statements = append(statements, "BEGIN; SAVEPOINT one_transaction; RELEASE one_transaction")
	if call.pgx != nil {
		conn := e.db.Connect(t)
		txExec(t, conn, statements[:len(statements)-1]...)
		tx := txBegin(t, conn)
		return func(ctx context.Context) error { return call.pgx(ctx, e, tx) }, int32(conn.PgConn().PID())
	}
	opened := e.open(t, driver)
	tx, err := opened.BeginTx(context.Background(), nil)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // many of these connections have ended
	must.Succeed(t, tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
	for _, statement := range statements[:len(statements)-1] {
		_, err := tx.Exec(statement)
		must.Succeed(t, err)
	}
	return func(ctx context.Context) error { return call.sql(ctx, e, tx) }, pid
}

func (e *errorEnv) open(t *testing.T, driver string) *sql.DB {
	t.Helper()
	var opened *sql.DB
	if driver == "lib/pq" {
		connector, err := pq.NewConnector(e.db.ConnString())
		must.Succeed(t, err)
		opened = sql.OpenDB(connector)
	} else {
		config, err := pgx.ParseConfig(e.db.ConnString())
		must.Succeed(t, err)
		opened = stdlib.OpenDB(*config)
	}
	t.Cleanup(func() { must.Succeed(t, opened.Close()) })
	return opened
}

// onCalls runs a test with each of the calls that wanted selects, and with each driver.
func onCalls(t *testing.T, wanted func(errorCall) bool, test func(t *testing.T, call errorCall, driver string)) {
	for _, call := range errorCalls {
		drivers := []string{"pgx"}
		if call.sql != nil {
			drivers = append(drivers, "lib/pq")
		}
		for _, driver := range drivers {
			if wanted(call) {
				t.Run(call.name+" "+driver, func(t *testing.T) { test(t, call, driver) })
			}
		}
	}
}

func anyCall(errorCall) bool { return true }

// errorRow is a row of the table in docs/errors.md, by what happened.
func errorRow(t *testing.T, happened string) (want []error, state string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/errors.md")
	must.Succeed(t, err)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], happened) {
			continue
		}
		for _, name := range regexp.MustCompile(`\bErr[A-Z]\w+`).FindAllString(cells[2], -1) {
			if errorNames[name] == nil {
				t.Fatalf("docs/errors.md: %s is unknown", name)
			}
			want = append(want, errorNames[name])
		}
		if strings.Contains(cells[2], "the context's error") {
			want = append(want, context.Canceled)
		}
		state = regexp.MustCompile("`[0-9A-Z]{5}`").FindString(cells[2])
		return want, strings.Trim(state, "`")
	}
	t.Fatalf("docs/errors.md has no row for: %s", happened)
	return nil, ""
}

var errorNames = map[string]error{
	"ErrNotAcquired": pglock.ErrNotAcquired, "ErrLost": pglock.ErrLost, "ErrUnlocked": pglock.ErrUnlocked,
	"ErrUnavailable": pglock.ErrUnavailable, "ErrDenied": pglock.ErrDenied, "ErrTooManyLocks": pglock.ErrTooManyLocks,
	"ErrInvalidKey": pglock.ErrInvalidKey, "ErrSelfDeadlock": pglock.ErrSelfDeadlock, "ErrDeadlock": pglock.ErrDeadlock, "ErrClosed": pglock.ErrClosed,
	"ErrPooler": pglock.ErrPooler, "ErrStandby": pglock.ErrStandby, "ErrStaleSnapshot": pglock.ErrStaleSnapshot,
	"ErrOtherServer": pglock.ErrOtherServer, "ErrUnsupported": pglock.ErrUnsupported,
	"ErrSchemaMissing": pglock.ErrSchemaMissing, "ErrUntrusted": pglock.ErrUntrusted,
}

// wantDocumented fails the test unless err is what docs/errors.md says, and matches no other sentinel.
func wantDocumented(t *testing.T, err error, happened string) {
	t.Helper()
	want, state := errorRow(t, happened)
	if err == nil {
		t.Fatal("no error")
	}
	for _, sentinel := range want {
		if !errors.Is(err, sentinel) {
			t.Errorf("%v\ndoes not match %q", err, sentinel)
		}
	}
	if state != "" && !strings.Contains(err.Error(), "SQLSTATE "+state) && !strings.Contains(err.Error(), "canceling statement") {
		t.Errorf("the error is %v, want %s", err, state)
	}
	for name, sentinel := range errorNames {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == sentinel
		}
		if !wanted && errors.Is(err, sentinel) && !(sentinel == pglock.ErrNotAcquired && errors.Is(err, context.Canceled)) {
			t.Errorf("%v\nalso matches %s", err, name)
		}
	}
}

func newErrorEnv(t *testing.T, db *testenv.DB) *errorEnv {
	t.Helper()
	lock := mustLock(t, openLocker(t, db), errorGuard)
	t.Cleanup(func() { _ = lock.Unlock(context.Background()) })
	return &errorEnv{db, lock}
}

// The server ends a session that is idle in a transaction with an error of another class than a terminated one.
func TestErrorsOfATransactionWhoseConnectionHasEnded(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	admin := e.db.Connect(t)
	for _, timeout := range []string{"0", "20ms"} {
		onCalls(t, anyCall, func(t *testing.T, call errorCall, driver string) {
			run, pid := e.errorTx(t, call, driver, "SET idle_in_transaction_session_timeout = '"+timeout+"'")
			if timeout == "0" {
				terminate(t, admin, pid)
			} else {
				testenv.WaitUntil(t, "the session has ended", func() bool {
					return must.One[bool](t, admin, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid)
				})
			}
			for _, state := range []string{"when the connection has ended", "when that is known"} {
				t.Log(state)
				wantDocumented(t, run(t.Context()), "the connection of your transaction has ended")
			}
		})
	}
}

func TestErrorsOfACancelledContext(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	onCalls(t, anyCall, func(t *testing.T, call errorCall, driver string) {
		run, _ := e.errorTx(t, call, driver)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantDocumented(t, run(ctx), "your own context ended")
	})
}

func TestErrorsOfAWaitThatTheServerEnds(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	txHold(t, e.db, errorKey)
	waits := func(call errorCall) bool { return call.waits }
	for setting, happened := range map[string]string{
		"lock_timeout":      "the session's own `lock_timeout`",
		"statement_timeout": "ended a statement of pglock's in your transaction",
	} {
		t.Run(setting, func(t *testing.T) {
			onCalls(t, waits, func(t *testing.T, call errorCall, driver string) {
				run, _ := e.errorTx(t, call, driver, "SET "+setting+" = '20ms'")
				wantDocumented(t, run(t.Context()), happened)
			})
			t.Run("GuardTx", func(t *testing.T) {
				// A transaction that was guarded by an earlier holder.
				earlier, locker := txBegin(t, e.db.Connect(t)), openLocker(t, e.db)
				lock := mustLock(t, locker, pglock.NewKey("earlier"))
				must.Succeed(t, lock.GuardTx(t.Context(), earlier))
				mustUnlock(t, lock)
				lock = mustLock(t, locker, pglock.NewKey("earlier"))
				defer mustUnlock(t, lock)
				conn := e.db.Connect(t)
				txExec(t, conn, "SET "+setting+" = '20ms'")
				wantDocumented(t, lock.GuardTx(t.Context(), txBegin(t, conn)), happened)
			})
		})
	}
}

func TestErrorsOfAReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	onCalls(t, anyCall, func(t *testing.T, call errorCall, driver string) {
		run, _ := e.errorTx(t, call, driver, "SET transaction_read_only = on", "SET default_transaction_read_only = on")
		if err := run(t.Context()); call.writes {
			wantDocumented(t, err, "something must be recorded")
		} else {
			must.Succeed(t, err)
		}
	})
	pool := errorPool(t, e.db, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	for name, run := range e.ownCalls(t, pool) {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context()); strings.HasPrefix(name, "BeginFunc") {
				must.Succeed(t, err)
			} else {
				wantDocumented(t, err, "something must be recorded")
			}
		})
	}
}

func TestErrorsOfATransactionElsewhere(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	elsewhere := &errorEnv{db: testenv.Database(t), lock: e.lock}
	guards := func(call errorCall) bool { return strings.Contains(call.name, "GuardTx") }
	onCalls(t, guards, func(t *testing.T, call errorCall, driver string) {
		run, _ := elsewhere.errorTx(t, call, driver)
		wantDocumented(t, run(t.Context()), "on another server, or in another database")
	})
}

// errorPool returns a pool of one connection, which has been opened.
func errorPool(t *testing.T, db *testenv.DB, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := db.Config(t)
	config.MaxConns = 1
	config.MaxConnIdleTime, config.HealthCheckPeriod = time.Hour, time.Hour
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	must.Succeed(t, pool.Ping(t.Context()))
	return pool
}

// ownCalls are the calls that begin a transaction themselves, or send a statement of their own.
func (e *errorEnv) ownCalls(t *testing.T, pool *pgxpool.Pool) map[string]func(context.Context) error {
	t.Helper()
	job, err := schedule.New(openLocker(t, e.db), pglock.NewKey("job"))
	must.Succeed(t, err)
	due := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	calls := map[string]func(context.Context) error{
		"BeginFunc": func(ctx context.Context) error {
			return pglock.BeginFunc(ctx, pool, pglock.NewKey("free"), func(context.Context, pgx.Tx) error { return nil })
		},
		"RunTx": func(ctx context.Context) error {
			due = due.Add(time.Second)
			return job.RunTx(ctx, pool, due, func(context.Context, pgx.Tx, *pglock.Lock) error { return nil })
		},
	}
	limiter, err := ratelimit.New(pool, pglock.NewKey("limits"), ratelimit.WithTimeout(time.Minute))
	must.Succeed(t, err)
	calls["ratelimit"] = func(ctx context.Context) error {
		_, err := limiter.Allow(ctx, "key", ratelimit.Limit{Count: 1, Per: time.Hour, Burst: 1000})
		return err
	}
	return calls
}

var onceScope, _ = once.New(pglock.NewKey("scope")) // the key is valid

func TestErrorsOfAConnectionThatEndsInThePool(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	admin := e.db.Connect(t)
	pool := errorPool(t, e.db, func(*pgxpool.Config) {})
	for name, run := range e.ownCalls(t, pool) {
		t.Run(name, func(t *testing.T) {
			pid := must.One[int32](t, pool, "SELECT pg_backend_pid()")
			terminate(t, admin, pid)
			wantDocumented(t, run(t.Context()), "the connection of your transaction has ended")
		})
	}
}

func TestErrorsOfACommit(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	admin, pool := e.db.Connect(t), e.db.Pool(t)
	job, err := schedule.New(openLocker(t, e.db), pglock.NewKey("job"))
	must.Succeed(t, err)
	end := func(tx pgx.Tx) error {
		terminate(t, admin, int32(tx.Conn().PgConn().PID()))
		return nil
	}
	own := errors.New("the function's own")
	for _, err := range []error{
		pglock.BeginFunc(t.Context(), pool, pglock.NewKey("free"), func(_ context.Context, tx pgx.Tx) error { return end(tx) }),
		job.RunTx(t.Context(), pool, time.Now(), func(_ context.Context, tx pgx.Tx, _ *pglock.Lock) error { return end(tx) }),
	} {
		wantDocumented(t, err, "the connection of your transaction has ended")
	}
	if err := pglock.BeginFunc(t.Context(), pool, pglock.NewKey("free"), func(context.Context, pgx.Tx) error { return own }); err != own {
		t.Errorf("the error is %v", err)
	}
}

func TestErrorsOfARateLimitWhoseStatementTheServerEnds(t *testing.T) {
	t.Parallel()
	e := newErrorEnv(t, testenv.Installed(t))
	pool := e.db.Pool(t)
	limiter, err := ratelimit.New(pool, pglock.NewKey("limits"), ratelimit.WithTimeout(time.Minute))
	must.Succeed(t, err)
	_, err = limiter.Allow(t.Context(), "key", ratelimit.Limit{Count: 1, Per: time.Hour, Burst: 1000})
	must.Succeed(t, err)
	txExec(t, txBegin(t, e.db.Connect(t)), "SELECT FROM pglock.rates FOR UPDATE")
	for _, setting := range []string{"statement_timeout", "lock_timeout"} {
		slow := errorPool(t, e.db, func(*pgxpool.Config) {})
		calls := e.ownCalls(t, slow)
		txExec(t, slow, "SET "+setting+" = '100ms'")
		for name, run := range calls {
			if !strings.HasPrefix(name, "ratelimit") {
				continue
			}
			wantDocumented(t, run(t.Context()), "ended a statement of pglock's own")
		}
	}
}

// Connections are opened before the table is full, since that would stop them.
func TestErrorsOfAFullLockTable(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, map[string]string{
		"max_locks_per_transaction": "10", "max_connections": "60", "max_prepared_transactions": "0",
	})
	db := testenv.On(t, server)
	must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))
	e := newErrorEnv(t, db)
	filler := e.db.Connect(t)
	pool := errorPool(t, e.db, func(*pgxpool.Config) {})
	own := e.ownCalls(t, pool)
	type ready struct {
		name string
		run  func(context.Context) error
	}
	var calls []ready
	onCalls(t, anyCall, func(_ *testing.T, call errorCall, driver string) {
		run, _ := e.errorTx(t, call, driver)
		calls = append(calls, ready{call.name + " " + driver, run})
	})
	for name, run := range own {
		must.Succeed(t, run(t.Context()))
		calls = append(calls, ready{name, run})
	}
	for _, err := filler.Exec(t.Context(), "SELECT pg_advisory_lock(n) FROM generate_series(1000, 100000) AS n"); txCode(err) != "53200"; {
		t.Fatalf("the lock table is not full: %v", err)
	}
	for _, call := range calls {
		t.Run(call.name, func(t *testing.T) {
			wantDocumented(t, call.run(t.Context()), "the server's lock table is full")
		})
	}
	must.Succeed(t, filler.Close(t.Context()))
}
