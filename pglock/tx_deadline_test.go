package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txSoon is a deadline that a test waits out, with room for the questions that follow the wait on a loaded machine.
const txSoon = 2 * time.Second

func TestTxLockTxBelowADeadlineKeepsTheConnectionAndNamesTheHolder(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	holder := txHold(t, db, key)
	txExec(t, holder, "SET application_name = 'billing'")
	for name, opts := range map[string][]pglock.TxOption{
		"LockTx": nil, "LockAllTx": nil, "LockTx with a MaxWait beyond the deadline": {pglock.MaxWait(txLong)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := txForms[0].lock
			if strings.HasPrefix(name, "LockAllTx") {
				lock = txForms[1].lock
			}
			conn, tx, err := txLockBelowADeadline(t, db, func(ctx context.Context, tx pgx.Tx) error {
				return lock(ctx, tx, key, opts...)
			})
			wait := txWantWaitError(t, err, key)
			if !errors.Is(wait, context.DeadlineExceeded) {
				t.Errorf("the error does not match the context's: %v", wait)
			}
			txWantHolder(t, wait, holder)
			if conn.IsClosed() {
				t.Fatal("the connection was closed")
			}
			txWantUsable(t, tx)
		})
	}
}

// txLockBelowADeadline calls lock, which must return before its context ends. A busy machine gets more time.
func txLockBelowADeadline(t *testing.T, db *testenv.DB, lock func(context.Context, pgx.Tx) error) (*pgx.Conn, pgx.Tx, error) {
	t.Helper()
	for deadline := txSoon; ; deadline *= 2 {
		conn := db.Connect(t)
		tx := txBegin(t, conn)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		err := lock(ctx, tx)
		late := ctx.Err() != nil
		cancel()
		if !late {
			return conn, tx, err
		}
		if deadline > 20*time.Second {
			t.Fatalf("the wait went on to the deadline, after %v: %v", deadline, err)
		}
	}
}

func TestTxLockTxBelowADeadlineLeavesAShorterLockTimeoutInForce(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	holder, tx := txHold(t, db, key), txBegin(t, db.Connect(t))
	txExec(t, holder, "SET application_name = 'billing'")
	txExec(t, tx, "SET LOCAL lock_timeout = '20ms'")
	ctx, cancel := context.WithTimeout(t.Context(), txLong)
	defer cancel()
	for _, form := range txForms[:2] {
		wait := txWantWaitError(t, form.lock(ctx, tx, key), key)
		if errors.Is(wait, context.DeadlineExceeded) || !strings.Contains(wait.Error(), "lock_timeout") {
			t.Errorf("%s: the error is %v", form.name, wait)
		}
		txWantHolder(t, wait, holder)
		txWantUsable(t, tx)
		if got := must.One[string](t, tx.Conn(), "SHOW lock_timeout"); got != "20ms" {
			t.Errorf("%s: lock_timeout is %s afterwards", form.name, got)
		}
		// MaxWait takes its place, as usual.
		wait = txWantWaitError(t, form.lock(ctx, tx, key, pglock.MaxWait(100*time.Millisecond)), key)
		if wait.Waited < 100*time.Millisecond || wait.Err != nil {
			t.Errorf("%s: MaxWait gave way to lock_timeout: %v", form.name, wait)
		}
	}
}

func TestTxLockTxOfAFreeKeyBelowADeadlineIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), txLong)
	defer cancel()
	for _, mode := range txModes {
		var trips *txRoundTrips
		tx := txBegin(t, txConnect(t, db.ConnString(), func(config *pgx.ConnConfig) {
			config.DefaultQueryExecMode = mode
			trips = txCountRoundTrips(config)
		}))
		if n := trips.during(func() { txCheck(t, pglock.LockTx(ctx, tx, pglock.NewKey(mode.String()))) }); n != 1 {
			t.Errorf("in mode %v it took %d round trips", mode, n)
		}
	}
}
