package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxWhatIsLockedIsWhatPgLocksShows(t *testing.T) {
	t.Parallel()
	keys := map[string]pglock.Key{ // by key and objsubid of pg_locks
		"-9223372036854775808 1": pglock.Int64Key(math.MinInt64),
		"-9223372034707292161 2": pglock.PairKey(math.MinInt32, math.MaxInt32),
		"-30064771030 2":         pglock.PairKey(-7, 42),
		"-1 1":                   pglock.Int64Key(-1),
		"-1 2":                   pglock.PairKey(-1, -1),
		"0 1":                    pglock.Int64Key(0),
		"0 2":                    pglock.PairKey(0, 0),
		"34359738326 2":          pglock.PairKey(7, -42),
		"6688477336110245193 1":  pglock.NewKey("invoice:42"),
		"9223372034707292160 2":  pglock.PairKey(math.MaxInt32, math.MinInt32),
		"9223372036854775807 1":  pglock.Int64Key(math.MaxInt64),
	}
	db := testenv.Database(t)
	conn := db.Connect(t)
	for _, form := range txAllForms {
		for mode, opts := range map[string][]pglock.TxOption{"ExclusiveLock": nil, "ShareLock": {pglock.Shared()}} {
			t.Run(form.name+" "+mode, func(t *testing.T) {
				tx := txBegin(t, conn)
				for _, key := range keys {
					txCheck(t, form.lock(t.Context(), tx, key, opts...))
				}
				locks := db.AdvisoryLocks(t)
				for _, lock := range locks {
					_, wanted := keys[fmt.Sprint(lock.Key, lock.ObjSubID)]
					if !wanted || !lock.Granted || lock.Mode != mode || lock.PID != int32(conn.PgConn().PID()) {
						t.Errorf("pg_locks shows %v", lock)
					}
				}
				if len(locks) != len(keys) {
					t.Errorf("pg_locks shows %d locks, want %d", len(locks), len(keys))
				}
				txCheck(t, tx.Commit(t.Context()))
				txWantLocks(t, db)
			})
		}
	}
}

func TestTxALockEndsWithItsSavepoint(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for _, form := range txForms {
		for wait, opts := range map[string][]pglock.TxOption{"": nil, " with MaxWait": {pglock.MaxWait(txLong)}} {
			t.Run(form.name+wait, func(t *testing.T) {
				tx := txBegin(t, db.Connect(t))
				txCheck(t, form.lock(t.Context(), tx, pglock.Int64Key(1), opts...))
				rolledBack, err := tx.Begin(t.Context())
				txCheck(t, err)
				txCheck(t, form.lock(t.Context(), rolledBack, pglock.Int64Key(2), opts...))
				txWantLocks(t, db, "@1 exclusive", "@2 exclusive")
				txCheck(t, rolledBack.Rollback(t.Context()))
				txWantLocks(t, db, "@1 exclusive")
				released, err := tx.Begin(t.Context())
				txCheck(t, err)
				txCheck(t, form.lock(t.Context(), released, pglock.Int64Key(3), opts...))
				txCheck(t, released.Commit(t.Context()))
				txWantLocks(t, db, "@1 exclusive", "@3 exclusive")
				txCheck(t, tx.Commit(t.Context()))
				txWantLocks(t, db)
			})
		}
	}
}

func TestTxALockIsReentrantWithinItsTransaction(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tx := txBegin(t, db.Connect(t))
	for _, lock := range []func(context.Context, pgx.Tx, pglock.Key, ...pglock.TxOption) error{
		pglock.LockTx, pglock.TryLockTx, txSendLock,
	} {
		txCheck(t, lock(t.Context(), tx, pglock.NewKey("again")))
		txCheck(t, lock(t.Context(), tx, pglock.NewKey("again"), pglock.Shared()))
	}
}

func TestTxALockWaitsForItsHolder(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.Int64Key(1)
	for _, form := range txForms {
		for wait, opts := range map[string][]pglock.TxOption{"": nil, " with MaxWait": {pglock.MaxWait(txLong)}} {
			t.Run(form.name+wait, func(t *testing.T) {
				holder, tx := txHold(t, db, key), txBegin(t, db.Connect(t))
				result := txGo(func() error { return form.lock(t.Context(), tx, key, opts...) })
				db.WaitForWaiters(t, 1)
				txWantLocks(t, db, "@1 exclusive", "@1 exclusive waited for")
				txCheck(t, holder.Commit(t.Context()))
				txCheck(t, <-result)
				txWantLocks(t, db, "@1 exclusive")
			})
		}
	}
}

func TestTxLocksWorkInAReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tx := txBegin(t, db.Connect(t), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	for i, form := range txForms {
		txCheck(t, form.lock(t.Context(), tx, pglock.Int64Key(int64(i))))
		txCheck(t, form.lock(t.Context(), tx, pglock.Int64Key(int64(i)), pglock.MaxWait(txLong)))
	}
	txWantLocks(t, db, "@0 exclusive", "@1 exclusive", "@2 exclusive")
}

func TestTxBeginFuncCommitsAndRollsBack(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool, key, boom := db.Pool(t), pglock.NewKey("counter"), errors.New("boom")
	txExec(t, pool, "CREATE TABLE done (n int)")
	insert := func(result error) func(context.Context, pgx.Tx) error {
		return func(_ context.Context, tx pgx.Tx) error {
			txWantLocks(t, db, fmt.Sprintf("@%d exclusive", key.Int64()))
			txExec(t, tx, "INSERT INTO done VALUES (1)")
			return result
		}
	}
	txCheck(t, pglock.BeginFunc(t.Context(), pool, key, insert(nil)))
	if err := pglock.BeginFunc(t.Context(), pool, key, insert(boom)); !errors.Is(err, boom) {
		t.Errorf("the error is %v", err)
	}
	func() {
		defer func() {
			if got := recover(); got != any(boom) {
				t.Errorf("the panic is %v", got)
			}
		}()
		err := pglock.BeginFunc(t.Context(), pool, key, func(ctx context.Context, tx pgx.Tx) error {
			txCheck(t, insert(nil)(ctx, tx))
			panic(boom)
		})
		t.Errorf("it went on after the panic: %v", err)
	}()
	txWantLocks(t, db)
	holder := txHold(t, db, key)
	err := pglock.BeginFunc(t.Context(), pool, key, func(context.Context, pgx.Tx) error {
		t.Error("it ran without the lock")
		return nil
	}, pglock.MaxWait(0))
	txWantWaitError(t, err, key)
	txCheck(t, holder.Rollback(t.Context()))

	n := must.One[int](t, pool, "SELECT count(*) FROM done")
	if n != 1 {
		t.Errorf("%d of 4 have been committed", n)
	}
}

func TestTxBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	var trips *txRoundTrips
	conn := txConnect(t, db.ConnString(), func(config *pgx.ConnConfig) { trips = txCountRoundTrips(config) })
	tx, key, zero := txBegin(t, conn), pglock.NewKey("a"), pglock.Key{}
	ctx := t.Context()
	for name, c := range map[string]struct {
		err   error
		match error
		text  string
	}{
		"LockTx of the zero Key":    {pglock.LockTx(ctx, tx, zero), pglock.ErrInvalidKey, "the zero Key"},
		"TryLockTx of the zero Key": {pglock.TryLockTx(ctx, tx, zero), pglock.ErrInvalidKey, "the zero Key"},
		"LockAllTx of the zero Key among others": {
			pglock.LockAllTx(ctx, tx, []pglock.Key{key, key, zero}), pglock.ErrInvalidKey, "key 3 of 3: ",
		},
		"QueueLockTx of the zero Key": {txSendLock(ctx, tx, zero), pglock.ErrInvalidKey, "the zero Key"},
		"LockTx with a negative MaxWait": {
			pglock.LockTx(ctx, tx, key, pglock.MaxWait(-1)), nil, "MaxWait(-1ns): the duration is negative",
		},
		"LockAllTx of nothing with a negative MaxWait": {
			pglock.LockAllTx(ctx, tx, nil, pglock.MaxWait(-1)), nil, "the duration is negative",
		},
		"QueueLockTx with a negative MaxWait": {
			txSendLock(ctx, tx, key, pglock.MaxWait(-1)), nil, "the duration is negative",
		},
		"TryLockTx with MaxWait": {
			pglock.TryLockTx(ctx, tx, key, pglock.MaxWait(1)), nil, "MaxWait contradicts a call that never waits",
		},
		"TryLockTx with MaxWait(0)": {
			pglock.TryLockTx(ctx, tx, key, pglock.MaxWait(0)), nil, "MaxWait contradicts a call that never waits",
		},
		"a nil option":      {pglock.LockTx(ctx, tx, key, nil), nil, "a TxOption is nil"},
		"a nil transaction": {pglock.LockTx(ctx, nil, key), nil, `lock "a": the transaction is nil`},
		"a nil DB": {
			pglock.BeginFunc(ctx, nil, key, func(context.Context, pgx.Tx) error { return nil }), nil, "the DB or the function is nil",
		},
		"a nil function": {pglock.BeginFunc(ctx, db.Pool(t), key, nil), nil, "the DB or the function is nil"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.text) || (c.match != nil && !errors.Is(c.err, c.match)) {
			t.Errorf("%s: the error is %v, want %q", name, c.err, c.text)
		}
	}
	if trips.count() != txRoundTripsOfConnectAndBegin(t, db) {
		t.Error("something has been sent")
	}
	txWantUsable(t, tx)
	txWantLocks(t, db)
}

func txRoundTripsOfConnectAndBegin(t *testing.T, db *testenv.DB) int {
	t.Helper()
	var trips *txRoundTrips
	txBegin(t, txConnect(t, db.ConnString(), func(config *pgx.ConnConfig) { trips = txCountRoundTrips(config) }))
	return trips.count()
}

func TestTxAnEndedTransactionIsAnError(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pooled, err := db.Pool(t).Begin(t.Context())
	txCheck(t, err)
	for _, tx := range []pgx.Tx{txBegin(t, db.Connect(t)), pooled} {
		txCheck(t, tx.Commit(t.Context()))
		for _, form := range txForms {
			for _, opts := range [][]pglock.TxOption{nil, {pglock.MaxWait(txLong)}} {
				if err := form.lock(t.Context(), tx, pglock.NewKey("late"), opts...); !errors.Is(err, pgx.ErrTxClosed) {
					t.Errorf("%s: the error is %v", form.name, err)
				}
			}
		}
	}
}
