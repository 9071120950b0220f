package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

func newLocker(t *testing.T, server *testenv.DB) *pglock.Locker {
	t.Helper()
	locker, err := pglock.New(server.Pool(t))
	return must.Closing(t, locker, err)
}

func TestSQLTxGuardKeepsTheWriterOfALostLockFromCommitting(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		pool := server.Pool(t)
		for _, statement := range []string{"DROP TABLE IF EXISTS balance", "CREATE TABLE balance AS SELECT 0 AS amount"} {
			_, err := pool.Exec(t.Context(), statement)
			must.Succeed(t, err)
		}
		key := pglock.NewKey("balance")
		lost, err := newLocker(t, server).Lock(t.Context(), key)
		must.Succeed(t, err)
		for range 2 { // the second one does not wait for earlier holders, and is a single statement
			tx := begin(t, db)
			must.Succeed(t, sqltx.GuardTx(t.Context(), lost, tx))
			_, err = tx.ExecContext(t.Context(), "UPDATE balance SET amount = amount + 1")
			must.Succeed(t, err)
			must.Succeed(t, tx.Commit())
		}
		early, late := begin(t, db), begin(t, db)
		must.Succeed(t, sqltx.GuardTx(t.Context(), lost, hidden{early}))
		_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND objid = $1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, uint32(key.Int64()))
		must.Succeed(t, err)

		next, err := newLocker(t, server).Lock(t.Context(), key)
		must.Succeed(t, err)
		err = sqltx.GuardTx(t.Context(), lost, late)
		if !errors.Is(err, pglock.ErrLost) {
			t.Errorf("the lock is lost: the error is %v", err)
		}
		if _, err := late.ExecContext(t.Context(), "UPDATE balance SET amount = -1"); err == nil {
			t.Error("a transaction whose guard has failed can continue")
		}
		guarded, tx := make(chan error, 1), begin(t, db)
		go func() { guarded <- sqltx.GuardTx(t.Context(), next, tx) }()
		server.WaitForWaiters(t, 1) // waits for the transaction that was guarded while the lock was held
		_, err = early.ExecContext(t.Context(), "UPDATE balance SET amount = 10 * amount")
		must.Succeed(t, err)
		must.Succeed(t, early.Commit())
		must.Succeed(t, <-guarded)
		var amount int
		must.Succeed(t, tx.QueryRowContext(t.Context(), "SELECT amount FROM balance").Scan(&amount))
		if amount != 20 {
			t.Errorf("the next holder reads %d", amount)
		}
		must.Succeed(t, tx.Rollback())
		must.Succeed(t, next.Unlock(t.Context()))
	})
}

func TestSQLTxGuardRefusesWhatItCannotGuard(t *testing.T) {
	onEach(t, func(t *testing.T, server *testenv.DB, db *sql.DB) {
		lock, err := newLocker(t, server).Lock(t.Context(), pglock.NewKey("balance"))
		must.Succeed(t, err)
		if err := sqltx.GuardTx(t.Context(), lock, db); !errors.Is(err, sqltx.ErrNoTransaction) {
			t.Errorf("a *sql.DB: the error is %v", err)
		}
		tx := begin(t, db, &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err := sqltx.GuardTx(t.Context(), lock, tx); !errors.Is(err, pglock.ErrStaleSnapshot) {
			t.Errorf("SERIALIZABLE: the error is %v", err)
		}
		must.Succeed(t, lock.Unlock(t.Context()))
		tx = begin(t, db)
		if err := sqltx.GuardTx(t.Context(), lock, tx); !errors.Is(err, pglock.ErrUnlocked) {
			t.Errorf("after Unlock: the error is %v", err)
		}
		if _, err := tx.ExecContext(t.Context(), "SELECT 1"); err == nil {
			t.Error("a transaction whose guard has failed can continue")
		}
	})
}

// A lock in a row refuses the guard, and a transaction that goes on without it does not commit.
func TestSQLTxGuardRefusesLocksInRows(t *testing.T) {
	db := testenv.Installed(t)
	pool := db.Pool(t)
	locker, err := rowlock.New(pool)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, locker.Close(context.Background())) }()
	held, err := locker.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	tx, err := closed(t, stdlib.OpenDBFromPool(pool)).BeginTx(t.Context(), nil)
	must.Succeed(t, err)
	if err := sqltx.GuardTx(t.Context(), held, tx); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("the error is %v", err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("a transaction that is not guarded was committed")
	}
	must.Succeed(t, held.Unlock(t.Context()))
}
