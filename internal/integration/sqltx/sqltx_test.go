package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
)

func TestSQLTxLocksAreHeldUntilTheTransactionEnds(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		tx := begin(t, db)
		must.Succeed(t, sqltx.LockTx(t.Context(), tx, pglock.Int64Key(1)))
		must.Succeed(t, sqltx.LockTx(t.Context(), tx, pglock.PairKey(7, -42), pglock.Shared()))
		must.Succeed(t, sqltx.TryLockTx(t.Context(), tx, pglock.Int64Key(3), pglock.Shared()))
		must.Succeed(t, sqltx.TryLockTx(t.Context(), tx, pglock.PairKey(8, 1)))
		must.Succeed(t, sqltx.LockAllTx(t.Context(), tx, []pglock.Key{pglock.Int64Key(5), pglock.PairKey(9, -1), pglock.Int64Key(4)}))
		wantLocks(t, server, "@1 exclusive", "@3 share", "@4 exclusive", "@5 exclusive",
			"@7/-42 share", "@8/1 exclusive", "@9/-1 exclusive")
		must.Succeed(t, tx.Commit())
		wantLocks(t, server)
	})
}

func TestSQLTxMaxWaitLeavesLockTimeoutAndTheTransactionAsTheyWere(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		held, pair, free := pglock.NewKey("held"), pglock.PairKey(7, -42), pglock.NewKey("free")
		holder, tx := begin(t, db), begin(t, db)
		must.Succeed(t, sqltx.LockAllTx(t.Context(), holder, []pglock.Key{held, pair}))
		_, err := tx.ExecContext(t.Context(), "SET LOCAL lock_timeout = '123s'")
		must.Succeed(t, err)
		must.Succeed(t, sqltx.LockTx(t.Context(), tx, free, pglock.MaxWait(long)))
		wait := wantWaitError(t, sqltx.LockTx(t.Context(), tx, held, pglock.MaxWait(30*time.Millisecond)), held)
		if wait.Waited < 30*time.Millisecond || len(wait.Holders) != 1 || wait.Holders[0].PID == 0 {
			t.Errorf("waited %v for %v", wait.Waited, wait.Holders)
		}
		keys := []pglock.Key{pglock.NewKey("other"), pair}
		if wait := wantWaitError(t, sqltx.LockAllTx(t.Context(), tx, keys, pglock.MaxWait(time.Millisecond)), keys[0]); len(wait.Keys) != 2 {
			t.Errorf("the error is %v", wait)
		}
		if timeout := show(t, tx, "lock_timeout"); timeout != "123s" {
			t.Errorf("lock_timeout is %s", timeout)
		}
		must.Succeed(t, holder.Rollback())
		must.Succeed(t, sqltx.LockTx(t.Context(), tx, held, pglock.MaxWait(long)))
		must.Succeed(t, sqltx.LockAllTx(t.Context(), tx, keys, pglock.MaxWait(long), pglock.Shared()))
		if timeout := show(t, tx, "lock_timeout"); timeout != "123s" {
			t.Errorf("after grants lock_timeout is %s", timeout)
		}
		must.Succeed(t, tx.Commit())
		wantLocks(t, server)
	})
}

func TestSQLTxWaitsForItsTurn(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		key := pglock.NewKey("invoice:42")
		for _, opts := range [][]pglock.TxOption{nil, {pglock.MaxWait(long)}} {
			holder, tx := begin(t, db), begin(t, db)
			must.Succeed(t, sqltx.LockTx(t.Context(), holder, key))
			granted := make(chan error, 1)
			go func() { granted <- sqltx.LockTx(t.Context(), tx, key, opts...) }()
			server.WaitForWaiters(t, 1)
			must.Succeed(t, holder.Commit())
			must.Succeed(t, <-granted)
			must.Succeed(t, tx.Rollback())
		}
	})
}

func TestSQLTxWaitEndsBelowTheDeadlineOfItsContext(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx", "lib/pq"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, db := pglock.NewKey("invoice:42"), drivers[name](t, testenv.Database(t).ConnString())
			holder, tx := begin(t, db), begin(t, db)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			must.Succeed(t, sqltx.LockTx(ctx, holder, key))
			must.Succeed(t, sqltx.LockAllTx(ctx, holder, []pglock.Key{key}))
			ctx, cancel = context.WithTimeout(t.Context(), 6*time.Second) // of which 0.6 s are left after the wait
			defer cancel()
			err := sqltx.LockTx(ctx, tx, key)
			if wait := wantWaitError(t, err, key); len(wait.Holders) != 1 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
			must.Succeed(t, holder.Commit())
			must.Succeed(t, sqltx.LockTx(t.Context(), tx, key))
		})
	}
}

func TestSQLTxContextThatEndsTheWaitIsInTheError(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		key := pglock.NewKey("invoice:42")
		holder, tx := begin(t, db), begin(t, db)
		must.Succeed(t, sqltx.LockTx(t.Context(), holder, key))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- sqltx.LockTx(ctx, tx, key) }()
		server.WaitForWaiters(t, 1)
		cancel()
		err := <-result
		wantWaitError(t, err, key)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestSQLTxRefusesStaleSnapshotsBeforeLocking(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		key := pglock.NewKey("invoice:42")
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			tx := begin(t, db, &sql.TxOptions{Isolation: level})
			for _, err := range []error{
				sqltx.LockTx(t.Context(), tx, key),
				sqltx.TryLockTx(t.Context(), tx, key),
				sqltx.LockAllTx(t.Context(), tx, []pglock.Key{key}),
				sqltx.LockTx(t.Context(), tx, key, pglock.MaxWait(long)),
			} {
				if !errors.Is(err, pglock.ErrStaleSnapshot) {
					t.Errorf("%v: the error is %v", level, err)
				}
			}
			wantLocks(t, server)
			must.Succeed(t, sqltx.LockTx(t.Context(), tx, key, pglock.AllowStaleSnapshot()))
			must.Succeed(t, tx.Rollback())
		}
	})
}

func TestSQLTxErrorOfAStatementByHandIsMapped(t *testing.T) {
	onEach(t, func(t *testing.T, _ *testenv.DB, db *sql.DB) {
		holder, tx := begin(t, db), begin(t, db)
		const lock = "SET LOCAL lock_timeout = '1ms'; SELECT pg_advisory_xact_lock(1)"
		must.Succeed(t, sqltx.LockTx(t.Context(), holder, pglock.Int64Key(1)))
		_, err := tx.ExecContext(t.Context(), lock)
		if !errors.Is(pglock.TxError(err), pglock.ErrNotAcquired) {
			t.Errorf("the error is %v", pglock.TxError(err))
		}
		if _, err = begin(t, db).ExecContext(t.Context(), "SELECT 1/0"); err == nil || pglock.TxError(err) != err {
			t.Errorf("another error is mapped: %v", pglock.TxError(err))
		}
	})
	if err := pglock.TxError(nil); err != nil {
		t.Errorf("nil is mapped: %v", err)
	}
	if err := pglock.TxError(many{"uncomparable"}); err.Error() != "uncomparable" {
		t.Errorf("the error is %v", err)
	}
}

// many is an error that == does not compare.
type many []string

func (m many) Error() string { return strings.Join(m, ", ") }

func TestSQLTxMisuseIsAnError(t *testing.T) {
	t.Parallel()
	db := drivers["pgx"](t, testenv.Database(t).ConnString())
	tx := begin(t, db)
	for name, err := range map[string]error{
		"nil":         sqltx.LockTx(t.Context(), nil, pglock.NewKey("a")),
		"nil *sql.Tx": sqltx.LockTx(t.Context(), (*sql.Tx)(nil), pglock.NewKey("a")),
		"no lock":     sqltx.GuardTx(t.Context(), nil, tx),
		"MaxWait":     sqltx.TryLockTx(t.Context(), tx, pglock.NewKey("a"), pglock.MaxWait(long)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := sqltx.LockTx(t.Context(), tx, pglock.Key{}); !errors.Is(err, pglock.ErrInvalidKey) {
		t.Errorf("the error of the zero key is %v", err)
	}
	must.Succeed(t, tx.Commit())
	if err := sqltx.LockTx(t.Context(), tx, pglock.NewKey("a")); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the error of a transaction that has ended is %v", err)
	}
}
