package pglock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestGuardTxOfALiveLockLetsTheTransactionCommit(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db)
	conn := db.Connect(t)
	a, b := mustLock(t, l, pglock.NewKey("a")), mustLock(t, l, pglock.PairKey(-1, 7), pglock.Shared())
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		return errors.Join(a.GuardTx(t.Context(), tx), b.GuardTx(t.Context(), tx), a.GuardTx(t.Context(), tx))
	})
	if err != nil {
		t.Error(err)
	}
	mustUnlock(t, a)
	mustUnlock(t, b)
	wantAborted(t, conn, func(tx pgx.Tx) error { return a.GuardTx(t.Context(), tx) }, pglock.ErrUnlocked)
}

// Under these settings pgx sends no message of several statements.
func TestGuardTxWorksWithoutTheSimpleProtocol(t *testing.T) {
	db := testenv.Database(t)
	l := openLocker(t, db)
	for _, setting := range []string{"standard_conforming_strings = off", "client_encoding = LATIN1"} {
		conn := db.Connect(t)
		if _, err := conn.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
		lock := mustLock(t, l, pglock.NewKey("a"))
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return lock.GuardTx(t.Context(), tx) })
		if err != nil {
			t.Errorf("%s: %v", setting, err)
		}
		mustUnlock(t, lock)
		wantAborted(t, conn, func(tx pgx.Tx) error { return lock.GuardTx(t.Context(), tx) }, pglock.ErrUnlocked)
	}
}

// wantAborted begins a transaction, and checks that the guard fails as expected and the transaction does not commit.
func wantAborted(t *testing.T, conn *pgx.Conn, guard func(pgx.Tx) error, want error) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	must.Succeed(t, err)
	if err := guard(tx); !errors.Is(err, want) {
		t.Errorf("GuardTx: %v, want %v", err, want)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the transaction committed after its guard had failed")
	}
}

// Whether or not the holder has been notified of the loss, its transaction must not commit.
func TestGuardTxOfALostLockAbortsTheTransaction(t *testing.T) {
	db := testenv.Database(t)
	conn, admin := db.Connect(t), db.Connect(t)
	l := openLocker(t, db)
	known := mustLock(t, l, pglock.NewKey("known"))
	terminate(t, admin, onlySession(t, db, true))
	awaitDone(t, known.Done(), "the loss")
	wantAborted(t, conn, func(tx pgx.Tx) error { return known.GuardTx(t.Context(), tx) }, pglock.ErrLost)

	over := mustLock(t, l, pglock.NewKey("over"), pglock.MaxHold(time.Millisecond))
	awaitDone(t, over.Done(), "MaxHold")
	wantAborted(t, conn, func(tx pgx.Tx) error { return over.GuardTx(t.Context(), tx) }, pglock.ErrLost)

	for range 20 { // the guard runs concurrently with the notification
		lock := mustLock(t, l, pglock.NewKey("unknown"))
		pid := onlySession(t, db, true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			terminate(t, admin, pid)
		}()
		tx, err := conn.Begin(t.Context())
		must.Succeed(t, err)
		if err := lock.GuardTx(t.Context(), tx); err != nil {
			if err := tx.Commit(t.Context()); err == nil {
				t.Error("the transaction committed after its guard had failed")
			}
		} else if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
		awaitDone(t, lock.Done(), "the loss")
	}
}

func TestGuardTxRefusesWhatItCannotGuard(t *testing.T) {
	db, elsewhere := testenv.Database(t), testenv.Database(t)
	l := openLocker(t, db)
	lock := mustLock(t, l, pglock.NewKey("k"))
	begin := func(on *testenv.DB, options pgx.TxOptions) (tx pgx.Tx) {
		tx, err := on.Connect(t).BeginTx(t.Context(), options)
		must.Succeed(t, err)
		return tx
	}
	stale := begin(db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err := lock.GuardTx(t.Context(), stale); !errors.Is(err, pglock.ErrStaleSnapshot) {
		t.Errorf("REPEATABLE READ: %v", err)
	}
	if _, err := stale.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
	foreign := begin(elsewhere, pgx.TxOptions{})
	if err := lock.GuardTx(t.Context(), foreign); err == nil || errors.Is(err, pglock.ErrLost) {
		t.Errorf("a transaction in another database: %v", err)
	}
	if err := lock.Err(); err != nil {
		t.Errorf("a transaction in another database ended the lock: %v", err)
	}
	for _, tx := range []pgx.Tx{stale, foreign} {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	mustUnlock(t, lock)
}

func mustGuard(t *testing.T, conn *pgx.Conn, lock *pglock.Lock) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err == nil {
		err = lock.GuardTx(minuteContext(t), tx)
	}
	if err != nil {
		t.Error(err)
	}
	return tx
}
