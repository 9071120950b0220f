package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txShort is a bound that a test waits out.
const txShort = 20 * time.Millisecond

func TestTxAfterMaxWaitTheTransactionGoesOn(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	for _, form := range txForms {
		if form.batch {
			continue
		}
		for _, maxWait := range []time.Duration{0, 1, time.Microsecond, txShort} {
			t.Run(fmt.Sprint(form.name, " with MaxWait ", maxWait), func(t *testing.T) {
				holder, tx := txHold(t, db, key), txBegin(t, db.Connect(t))
				txExec(t, holder, "SET application_name = 'billing'")
				txCheck(t, pglock.LockTx(t.Context(), tx, pglock.Int64Key(1)))

				wait := txWantWaitError(t, form.lock(t.Context(), tx, key, pglock.MaxWait(maxWait)), key)

				if wait.Err != nil {
					t.Errorf("it was ended by %v", wait.Err)
				}
				if wait.Waited < maxWait {
					t.Errorf("it waited for %v, less than MaxWait", wait.Waited)
				}
				if maxWait > 0 {
					txWantHolder(t, wait, holder)
				}
				txWantUsable(t, tx)
				txWantLocks(t, db, "@1 exclusive", fmt.Sprintf("@%d exclusive", key.Int64()))
				txCheck(t, holder.Commit(t.Context()))
				txCheck(t, form.lock(t.Context(), tx, key, pglock.MaxWait(txLong)))
				txCheck(t, tx.Commit(t.Context()))
			})
		}
	}
}

func TestTxMaxWaitWorksThroughAPoolerInEveryMode(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("invoice:42")
	pooled := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	holder := txHold(t, db, key)
	txExec(t, holder, "SET application_name = 'billing'")
	for _, mode := range txModes {
		t.Run(mode.String(), func(t *testing.T) {
			var trips *txRoundTrips
			tx := txBegin(t, txConnect(t, pooled, func(config *pgx.ConnConfig) {
				config.DefaultQueryExecMode = mode
				trips = txCountRoundTrips(config)
			}))
			var err error
			n := trips.during(func() { err = pglock.LockTx(t.Context(), tx, key, pglock.MaxWait(txShort)) })
			txWantHolder(t, txWantWaitError(t, err, key), holder)
			if n != 7 {
				t.Errorf("it took %d round trips: a try, the wait in a savepoint, and three to ask who is in the way", n)
			}
			txWantUsable(t, tx)
		})
	}
}

// txWantHolder fails the test unless the error names the session of holder, in Holders and in its text.
func txWantHolder(t *testing.T, wait *pglock.WaitError, holder pgx.Tx) {
	t.Helper()
	pid := holder.Conn().PgConn().PID()
	if len(wait.Holders) != 1 {
		t.Fatalf("the holders are %v", wait.Holders)
	}
	got := wait.Holders[0]
	if got.PID != int32(pid) || got.User != holder.Conn().Config().User || got.Application != "billing" || got.Shared ||
		got.Client == "" || got.SessionSince.IsZero() {
		t.Errorf("the holder is %+v, want pid %d of billing", got, pid)
	}
	for _, text := range []string{
		`lock "invoice:42" not acquired after `, fmt.Sprintf(`held by pid %d, application "billing"`, pid),
	} {
		if !strings.Contains(wait.Error(), text) {
			t.Errorf("the text is %q, want %q in it", wait, text)
		}
	}
}

// TestTxLockTimeoutIsAsItWas compares every call with the same transaction without it.
func TestTxLockTimeoutIsAsItWas(t *testing.T) {
	t.Parallel()
	lock := func(form txForm, key pglock.Key, d time.Duration) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { return form.lock(ctx, tx, key, pglock.MaxWait(d)) }
	}
	free, heldKey := pglock.Int64Key(1), pglock.Int64Key(2)
	calls := map[string]func(context.Context, pgx.Tx) error{}
	for _, form := range txForms {
		calls[form.name+", granted"] = lock(form, free, txLong)
		calls[form.name+", a huge MaxWait"] = lock(form, free, math.MaxInt64)
		if !form.batch {
			calls[form.name+", expired"] = lock(form, heldKey, txShort)
		}
		calls[form.name+", in a savepoint"] = func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return lock(form, free, txLong)(ctx, tx) })
		}
		calls[form.name+", expired in a savepoint that is rolled back"] = func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return lock(form, heldKey, txShort)(ctx, tx) })
		}
	}
	db := testenv.Database(t)
	txHold(t, db, heldKey)
	conn, control := db.Connect(t), db.Connect(t)
	ends := []string{"COMMIT", "ROLLBACK"} // in turn
	for _, session := range []string{"RESET lock_timeout", "SET lock_timeout = '7s'"} {
		for _, inside := range []string{"", "SET lock_timeout = '8s'", "SET LOCAL lock_timeout = '9s'",
			"SET lock_timeout = '8s'; SET LOCAL lock_timeout = '9s'", "SET LOCAL lock_timeout = '1ms'"} {
			for name, call := range calls {
				ends[0], ends[1] = ends[1], ends[0]
				end := ends[0]
				t.Run(strings.Join([]string{session, inside, name, end}, "; "), func(t *testing.T) {
					tx := txBeginAfter(t, conn, session, inside)
					if err := call(t.Context(), tx); err != nil && !errors.Is(err, pglock.ErrNotAcquired) {
						t.Errorf("the call: %v", err)
					}
					txBeginAfter(t, control, session, inside)
					txWantSameLockTimeout(t, "after the call", conn, control)
					txExec(t, conn, end)
					txExec(t, control, end)
					txWantSameLockTimeout(t, "after "+end, conn, control)
				})
			}
		}
	}
}

func txBeginAfter(t *testing.T, conn *pgx.Conn, session, inside string) pgx.Tx {
	t.Helper()
	txExec(t, conn, session)
	tx := txBegin(t, conn)
	txExec(t, conn, inside)
	return tx
}

func txWantSameLockTimeout(t *testing.T, when string, conn, control *pgx.Conn) {
	t.Helper()
	if got, want := must.One[string](t, conn, "SHOW lock_timeout"), must.One[string](t, control, "SHOW lock_timeout"); got != want {
		t.Errorf("%s lock_timeout is %s, want %s", when, got, want)
	}
}

func TestTxMaxWaitTakesThePlaceOfALowerLockTimeout(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.Int64Key(1)
	for _, form := range txForms {
		t.Run(form.name, func(t *testing.T) {
			holder, tx := txHold(t, db, key), txBegin(t, db.Connect(t))
			txExec(t, tx, "SET LOCAL lock_timeout = '1ms'")
			result := txGo(func() error { return form.lock(t.Context(), tx, key, pglock.MaxWait(txLong)) })
			txAwaitWaitOf(t, db, txShort)
			txCheck(t, holder.Commit(t.Context()))
			txCheck(t, <-result)
		})
	}
}

// txAwaitWaitOf returns when one and the same waiter has been seen for at least d.
func txAwaitWaitOf(t *testing.T, db *testenv.DB, d time.Duration) {
	t.Helper()
	db.WaitForWaiters(t, 1)
	since := time.Now()
	testenv.WaitUntil(t, fmt.Sprintf("the wait has lasted %v", d), func() bool { return time.Since(since) >= d })
	db.WaitForWaiters(t, 1)
}

// TestTxMaxWaitBoundsTheWaitForAllKeysTogether lets each wait end after a fifth of the bound. If it were a bound of
// each wait, no wait would reach it and all eight keys would be granted.
func TestTxMaxWaitBoundsTheWaitForAllKeysTogether(t *testing.T) {
	t.Parallel()
	const maxWait = 2 * time.Second
	db, mine := testenv.Database(t), pglock.Int64Key(-1)
	keys, holders := []pglock.Key{}, []pgx.Tx{}
	for i := range 8 {
		keys = append(keys, pglock.Int64Key(int64(i)))
		holders = append(holders, txHold(t, db, keys[i]))
	}
	tx := txBegin(t, db.Connect(t))
	txCheck(t, pglock.LockTx(t.Context(), tx, mine))
	result := txGo(func() error { return pglock.LockAllTx(t.Context(), tx, keys, pglock.MaxWait(maxWait)) })

	released := 0
	release := func() {
		txCheck(t, holders[released].Rollback(t.Context()))
		released++
	}
	err := txReleaseOneByOne(t, db, keys, maxWait/5, release, result)

	wait := txWantWaitError(t, err, keys[0])
	if len(wait.Keys) != len(keys) || wait.Waited < maxWait {
		t.Errorf("it waited %v for %d keys", wait.Waited, len(wait.Keys))
	}
	txWantUsable(t, tx)
	want := []string{"@-1 exclusive"} // what was locked before
	for _, key := range keys[released:] {
		want = append(want, key.String()+" exclusive")
	}
	txWantLocks(t, db, want...)
}

// txReleaseOneByOne calls release each time a wait for a key has lasted at least d, until there is a result.
func txReleaseOneByOne(t *testing.T, db *testenv.DB, keys []pglock.Key, d time.Duration, release func(),
	result <-chan error,
) (err error) {
	t.Helper()
	waitedFor, since, left := int64(math.MinInt64), time.Time{}, len(keys)
	testenv.WaitUntil(t, "there is a result", func() bool {
		select {
		case err = <-result:
			return true
		default:
		}
		for _, lock := range db.AdvisoryLocks(t) {
			switch {
			case lock.Granted:
			case lock.Key != waitedFor:
				waitedFor, since = lock.Key, time.Now()
			case time.Since(since) >= d && left > 0:
				release()
				waitedFor, left = math.MinInt64, left-1
			}
		}
		return false
	})
	return err
}

func TestTxMaxWaitLeavesTheTransactionAliveWhereHoldersCannotBeSeen(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("secret")
	txExec(t, db.Connect(t), "REVOKE SELECT ON pg_catalog.pg_stat_activity FROM PUBLIC")
	txHold(t, db, key)
	tx := txBegin(t, txConnect(t, db.Role(t, "pglock_poor"), nil))
	wait := txWantWaitError(t, pglock.LockTx(t.Context(), tx, key, pglock.MaxWait(txShort)), key)
	if wait.Err != nil || len(wait.Holders) != 0 {
		t.Errorf("it was ended by %v; the holders are %v", wait.Err, wait.Holders)
	}
	txWantUsable(t, tx)
}

func TestTxAPreparedTransactionIsNamedAsHolder(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("a")
	gid := "transfer of " + db.Name()
	holder := db.Connect(t)
	txCheck(t, pglock.LockTx(t.Context(), txBegin(t, holder), key))
	txExec(t, holder, fmt.Sprintf("PREPARE TRANSACTION '%s'", gid))
	tx := txBegin(t, db.Connect(t))
	wait := txWantWaitError(t, pglock.LockTx(t.Context(), tx, key, pglock.MaxWait(txShort)), key)
	if text := fmt.Sprintf("held by prepared transaction %q", gid); !strings.Contains(wait.Error(), text) {
		t.Errorf("the text is %q, want %q in it", wait, text)
	}
	txExec(t, holder, fmt.Sprintf("ROLLBACK PREPARED '%s'", gid))
}

func TestTxARoleWithoutRightsSeesWhoHolds(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.NewKey("a")
	holder := txHold(t, db, key)
	tx := txBegin(t, txConnect(t, db.Role(t, "pglock_poor"), nil))
	wait := txWantWaitError(t, pglock.LockTx(t.Context(), tx, key, pglock.MaxWait(txShort)), key)
	if len(wait.Holders) != 1 || wait.Holders[0].PID != int32(holder.Conn().PgConn().PID()) {
		t.Errorf("the holders are %+v", wait.Holders)
	}
}
