package locktest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func openDB(t *testing.T, server *locktest.Server, inner *sql.DB) *sql.DB {
	t.Helper()
	db := server.OpenDB(inner)
	t.Cleanup(func() { must.Succeed(t, db.Close()) })
	return db
}

func beginSQL(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // if the test has not ended it
	return tx
}

func TestSQLTxInMemoryLastsUntilTheTransactionEnds(t *testing.T) {
	server, ctx := locktest.NewServer(), t.Context()
	db, l := openDB(t, server, nil), openMemory(t, server)
	a, b := pglock.NewKey("a"), pglock.NewKey("b")
	for name, end := range map[string]func(*sql.Tx) error{"commit": (*sql.Tx).Commit, "rollback": (*sql.Tx).Rollback} {
		tx, other := beginSQL(t, db), beginSQL(t, db)
		must.Succeed(t, sqltx.LockTx(ctx, tx, a, pglock.MaxWait(time.Minute)))
		must.Succeed(t, sqltx.LockAllTx(ctx, tx, []pglock.Key{b, a})) // reentrant
		_, err := tx.ExecContext(ctx, "update accounts")
		must.Succeed(t, err)
		wantError(t, sqltx.TryLockTx(ctx, other, b), pglock.ErrNotAcquired, name+": another transaction's TryLockTx")
		if lock, err := l.TryLock(ctx, a); err == nil {
			t.Errorf("%s: a Locker gets the lock of a transaction", name)
			must.Succeed(t, lock.Unlock(ctx))
		}
		must.Succeed(t, end(tx))
		must.Succeed(t, sqltx.TryLockTx(ctx, other, b)) // a try leaves the transaction as it is
		must.Succeed(t, other.Commit())
	}
	wantError(t, sqltx.LockTx(ctx, db, a), sqltx.ErrNoTransaction, "LockTx without a transaction")
}

func TestSQLTxInMemoryWaitsAndSaysForWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx, key := locktest.NewServer(), t.Context(), pglock.NewKey("k")
		db, l := openDB(t, server, nil), openMemory(t, server)
		lock, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		tx, began := beginSQL(t, db), time.Now()
		err = sqltx.LockTx(ctx, tx, key, pglock.MaxWait(time.Minute))
		wantError(t, err, pglock.ErrNotAcquired, "LockTx")
		if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || len(wait.Holders) != 1 || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		must.Succeed(t, lock.Unlock(ctx))
		must.Succeed(t, sqltx.LockTx(ctx, tx, key)) // the transaction can continue
		must.Succeed(t, tx.Rollback())
	})
}

func TestSQLGuardTxInMemory(t *testing.T) {
	server, ctx, key := locktest.NewServer(), t.Context(), pglock.NewKey("k")
	db, l := openDB(t, server, nil), openMemory(t, server)
	lock, err := l.Lock(ctx, key)
	must.Succeed(t, err)
	tx := beginSQL(t, db)
	must.Succeed(t, sqltx.GuardTx(ctx, lock, tx))
	must.Succeed(t, tx.Commit())

	server.Lose(key)
	<-lock.Done()
	tx = beginSQL(t, db)
	wantError(t, sqltx.GuardTx(ctx, lock, tx), pglock.ErrLost, "GuardTx after the loss")
	if err := tx.Commit(); err == nil {
		t.Error("the transaction commits after the loss")
	}
}

// Statements, their arguments and their rows pass between the caller and the other database.
func TestSQLStatementsReachTheOtherDatabase(t *testing.T) {
	ctx, server := t.Context(), locktest.NewServer()
	inner, err := sql.Open("pgx", testenv.Database(t).ConnString())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, inner.Close()) })
	db := openDB(t, server, inner)
	_, err = db.ExecContext(ctx, "CREATE TABLE invoices (id bigint, at timestamptz, note text)")
	must.Succeed(t, err)
	at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	insert := func(end func(*sql.Tx) error, id int64) {
		tx := beginSQL(t, db)
		must.Succeed(t, sqltx.LockTx(ctx, tx, pglock.Int64Key(id)))
		prepared, err := tx.PrepareContext(ctx, "INSERT INTO invoices VALUES ($1, $2, NULL)")
		must.Succeed(t, err)
		result, err := prepared.ExecContext(ctx, id, at)
		must.Succeed(t, err)
		if n, err := result.RowsAffected(); n != 1 || err != nil {
			t.Errorf("%d rows were inserted: %v", n, err)
		}
		must.Succeed(t, end(tx))
	}
	insert((*sql.Tx).Commit, 1)
	insert((*sql.Tx).Rollback, 2)
	var sum int64
	var when time.Time
	var note sql.NullString
	must.Succeed(t, db.QueryRowContext(ctx, "SELECT sum(id)::bigint, max(at), max(note) FROM invoices").Scan(&sum, &when, &note))
	if sum != 1 || !when.Equal(at) || note.Valid {
		t.Errorf("the rows are %d, %v, %v", sum, when, note)
	}
}

// A context that ends takes the transaction with it, and so its locks.
func TestSQLLocksInMemoryEndWithTheContextOfTheTransaction(t *testing.T) {
	server, key := locktest.NewServer(), pglock.NewKey("k")
	db := openDB(t, server, nil)
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := db.BeginTx(ctx, nil)
	must.Succeed(t, err)
	must.Succeed(t, sqltx.LockTx(ctx, tx, key))
	cancel()
	must.Succeed(t, sqltx.LockTx(t.Context(), beginSQL(t, db), key))
}
