package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestLockTxInMemoryLastsUntilTheTransactionEnds(t *testing.T) {
	server, ctx := locktest.NewServer(), t.Context()
	l := openMemory(t, server)
	key := pglock.NewKey("k")
	free := func() bool {
		lock, err := l.TryLock(ctx, key)
		if err == nil {
			must.Succeed(t, lock.Unlock(ctx))
		}
		return err == nil
	}
	for name, end := range map[string]func(pgx.Tx) error{
		"commit":   func(tx pgx.Tx) error { return tx.Commit(ctx) },
		"rollback": func(tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		tx, err := server.Begin(ctx)
		must.Succeed(t, err)
		must.Succeed(t, pglock.LockTx(ctx, tx, key))
		must.Succeed(t, pglock.LockTx(ctx, tx, key)) // reentrant
		must.Succeed(t, pglock.LockAllTx(ctx, tx, []pglock.Key{key, pglock.NewKey("another")}))
		if free() {
			t.Errorf("%s: the lock of a transaction is free", name)
		}
		wantError(t, pglock.TryLockTx(ctx, server.Tx(nil), key), pglock.ErrNotAcquired, "another transaction's TryLockTx")
		must.Succeed(t, end(tx))
		if !free() {
			t.Errorf("after %s the lock is held", name)
		}
		wantError(t, pglock.LockTx(ctx, tx, key), pgx.ErrTxClosed, "LockTx after the end")
	}
	err := pglock.BeginFunc(ctx, server, key, func(tx pgx.Tx) error {
		if free() {
			t.Error("the lock of BeginFunc is free")
		}
		_, err := tx.Exec(ctx, "update accounts")
		return err
	})
	must.Succeed(t, err)
	if !free() {
		t.Error("after BeginFunc the lock is held")
	}
}

func TestLockTxInMemoryEndsWithItsSavepoint(t *testing.T) {
	server, ctx, key := locktest.NewServer(), t.Context(), pglock.NewKey("k")
	for _, committed := range []bool{false, true} {
		tx := server.Tx(nil)
		savepoint, err := tx.Begin(ctx)
		must.Succeed(t, err)
		must.Succeed(t, pglock.LockTx(ctx, savepoint, key))
		if committed {
			must.Succeed(t, savepoint.Commit(ctx))
		} else {
			must.Succeed(t, savepoint.Rollback(ctx))
		}
		other := server.Tx(nil)
		if err := pglock.TryLockTx(ctx, other, key); (err == nil) == committed {
			t.Errorf("savepoint committed %v: another's TryLockTx: %v", committed, err)
		}
		must.Succeed(t, other.Rollback(ctx))
		must.Succeed(t, tx.Rollback(ctx))
	}
}

func TestLockTxInMemoryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx, key := locktest.NewServer(), t.Context(), pglock.NewKey("k")
		l := openMemory(t, server, pglock.WithApplicationName("billing"))
		lock, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		tx := server.Tx(nil)
		wait := (*pglock.WaitError)(nil)
		err = pglock.LockTx(ctx, tx, key, pglock.MaxWait(time.Second))
		if !errors.As(err, &wait) || wait.Err != nil || wait.Waited != time.Second || len(wait.Holders) != 1 || wait.Holders[0].Application != "billing" {
			t.Errorf("MaxWait: %v", err)
		}
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = pglock.LockTx(soon, tx, key)
		if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) || wait.Waited >= time.Second || len(wait.Holders) != 1 {
			t.Errorf("below a deadline: %v", err)
		}
		if _, err := tx.Exec(ctx, "insert into missed"); err != nil {
			t.Errorf("after MaxWait the transaction cannot continue: %v", err)
		}
		wantError(t, pglock.LockTx(lock.Context(ctx), tx, key), pglock.ErrSelfDeadlock, "LockTx under a Lock of its key")
		time.AfterFunc(time.Second, func() { must.Succeed(t, lock.Unlock(context.Background())) })
		must.Succeed(t, pglock.LockTx(ctx, tx, key))
		cancelled := server.Tx(nil)
		ended, end := context.WithCancel(ctx)
		time.AfterFunc(time.Second, end)
		wantError(t, pglock.LockTx(ended, cancelled, key), context.Canceled, "a cancelled wait")
		if _, err := cancelled.Exec(ctx, "insert"); err == nil {
			t.Error("after a cancelled wait the transaction goes on")
		}
		must.Succeed(t, cancelled.Rollback(ctx))
		must.Succeed(t, tx.Commit(ctx))
	})
}

func TestStatementsThatReturnRowsNeedATransactionThatCarriesThemOut(t *testing.T) {
	ctx, server := t.Context(), locktest.NewServer()
	tx := server.Tx(nil)
	if _, err := tx.Query(ctx, "select 1"); err == nil {
		t.Error("Query returned no error")
	}
	if err := tx.QueryRow(ctx, "select 1").Scan(nil); err == nil {
		t.Error("QueryRow returned no error")
	}
	batch := &pgx.Batch{}
	batch.Queue("select 1")
	if _, err := tx.SendBatch(ctx, batch).Query(); err == nil {
		t.Error("SendBatch returned no error")
	}
	outer := server.Tx(tx) // as on a mock
	if _, err := outer.Exec(ctx, "insert"); err != nil || len(tx.Statements()) != 1 {
		t.Errorf("Exec did not reach the inner transaction: %v", err)
	}
	must.Succeed(t, outer.Commit(ctx))
	wantError(t, tx.Rollback(ctx), pgx.ErrTxClosed, "Rollback of the inner transaction, which was committed")
}
