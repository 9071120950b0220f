package pglock_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxLockTxUnderALockOfItsKeyIsASelfDeadlock(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	l := openLocker(t, db)
	servers := map[string]string{
		"direct": db.ConnString(), "through a pooler": testenv.PgBouncer(t, db, testenv.TransactionPooling),
	}
	for server, connString := range servers {
		for _, form := range txForms[:2] {
			for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
				lock := mustLock(t, l, key)
				tx := txBegin(t, txConnect(t, connString, func(c *pgx.ConnConfig) {
					c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
				}), pgx.TxOptions{IsoLevel: isolation})
				ctx, cancel := context.WithCancel(lock.Context(t.Context()))
				err, want := form.lock(ctx, tx, key), pglock.ErrSelfDeadlock
				if isolation == pgx.Serializable && form.name == "LockTx" {
					want = pglock.ErrStaleSnapshot // which comes without a wait
				}
				if !errors.Is(err, want) {
					t.Errorf("%s, %s, %s: the error is %v, want %v", server, form.name, isolation, err, want)
				}
				txWantUsable(t, tx)
				if err := pglock.TryLockTx(ctx, tx, key); isolation == pgx.ReadCommitted && !errors.Is(err, pglock.ErrNotAcquired) {
					t.Errorf("TryLockTx: the error is %v", err)
				}
				cancel()
				txCheck(t, tx.Rollback(t.Context()))
				txCheck(t, lock.Unlock(t.Context()))
			}
		}
	}
}

func TestTxLockTxThatCanBeGrantedIsNoSelfDeadlock(t *testing.T) {
	t.Parallel()
	db, elsewhere, key := testenv.Database(t), testenv.Database(t), pglock.NewKey("invoice:42")
	l := openLocker(t, db)
	lock := mustLock(t, l, key)
	ctx := lock.Context(t.Context())
	txCheck(t, pglock.LockTx(ctx, txBegin(t, elsewhere.Connect(t)), key))
	txCheck(t, pglock.LockTx(ctx, txBegin(t, db.Connect(t)), pglock.NewKey("another")))
	tx := txBegin(t, db.Connect(t))
	result := txGo(func() error { return pglock.LockTx(context.WithoutCancel(ctx), tx, key) })
	db.WaitForWaiters(t, 1)
	txCheck(t, lock.Unlock(t.Context()))
	txCheck(t, <-result)
	txCheck(t, tx.Rollback(t.Context()))

	shared := mustLock(t, l, key, pglock.Shared())
	ctx = shared.Context(t.Context())
	tx = txBegin(t, db.Connect(t))
	txCheck(t, pglock.LockTx(ctx, tx, key, pglock.Shared()))
	if err := pglock.LockTx(ctx, txBegin(t, db.Connect(t)), key); !errors.Is(err, pglock.ErrSelfDeadlock) {
		t.Errorf("an exclusive LockTx under a shared Lock: %v", err)
	}
	txCheck(t, shared.Unlock(t.Context()))
}

// A context of package signal is usually the parent of a Lock's context, not derived from it. Then the Lock is found.
func TestTxContextsOfOtherPackagesAreNotFollowed(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	l := openLocker(t, db)
	root, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	lock := mustLock(t, l, pglock.NewKey("k"))
	if _, err := l.Lock(lock.Context(root), pglock.NewKey("k")); !errors.Is(err, pglock.ErrSelfDeadlock) {
		t.Errorf("the error is %v", err)
	}
	txCheck(t, lock.Unlock(t.Context()))
}
