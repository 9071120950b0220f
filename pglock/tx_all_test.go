package pglock_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txOrder is the documented order of keys.
func txOrder(a, b pglock.Key) int {
	return cmp.Or(cmp.Compare(a.ID().Space, b.ID().Space), cmp.Compare(a.Int64(), b.Int64()))
}

func TestTxLockAllTxTakesKeysInOneOrder(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pglock.TxOption{"plain": nil, "MaxWait": {pglock.MaxWait(txLong)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Database(t)
			ordered := []pglock.Key{
				pglock.Int64Key(-5), pglock.Int64Key(3), pglock.Int64Key(1 << 40),
				pglock.PairKey(-1, 0), pglock.PairKey(0, 0), pglock.PairKey(0, -1), pglock.PairKey(1, -9),
			}
			for range 8 {
				i := rand.IntN(len(ordered))
				holder, tx := txHold(t, db, ordered[i]), txBegin(t, db.Connect(t))
				keys := slices.Clone(ordered)
				rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				result := txGo(func() error { return pglock.LockAllTx(t.Context(), tx, keys, opts...) })
				db.WaitForWaiters(t, 1)
				if got := txHeldBy(t, db, tx); got != i {
					t.Errorf("it holds %d keys while it waits for number %d of %v", got, i, ordered)
				}
				txCheck(t, holder.Rollback(t.Context()))
				txCheck(t, <-result)
				if got := txHeldBy(t, db, tx); got != len(ordered) {
					t.Errorf("it holds %d keys of %d", got, len(ordered))
				}
				txCheck(t, tx.Rollback(t.Context()))
			}
		})
	}
}

func txHeldBy(t *testing.T, db *testenv.DB, tx pgx.Tx) (n int) {
	t.Helper()
	for _, lock := range db.AdvisoryLocks(t) {
		if lock.Granted && lock.PID == int32(tx.Conn().PgConn().PID()) {
			n++
		}
	}
	return n
}

func TestTxLockAllTxTakesDuplicatesOnceAndNothingForNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	named, pair := pglock.NewKey("invoice:42"), pglock.PairKey(7, -42)
	for name, opts := range map[string][]pglock.TxOption{"plain": nil, "MaxWait": {pglock.MaxWait(txLong)}} {
		t.Run(name, func(t *testing.T) {
			tx := txBegin(t, db.Connect(t))
			keys := []pglock.Key{pair, named, pair, pglock.Int64Key(named.Int64()), named}
			given := slices.Clone(keys)
			txCheck(t, pglock.LockAllTx(t.Context(), tx, keys, opts...))
			txWantLocks(t, db, "@7/-42 exclusive", "@6688477336110245193 exclusive")
			if !slices.EqualFunc(keys, given, pglock.Key.Equal) {
				t.Errorf("it has changed the caller's keys to %v", keys)
			}
			txCheck(t, tx.Rollback(t.Context()))
		})
	}
	tx := txBegin(t, db.Connect(t), pgx.TxOptions{IsoLevel: pgx.Serializable})
	for _, none := range [][]pglock.Key{nil, {}} {
		if err := pglock.LockAllTx(t.Context(), tx, none); !errors.Is(err, pglock.ErrInvalidKey) {
			t.Errorf("no keys: the error is %v", err)
		}
	}
	txWantUsable(t, tx)
}

func TestTxLockAllTxSharesWhatIsShared(t *testing.T) {
	t.Parallel()
	db, keys := testenv.Database(t), txHundredKeys[:6]
	reader, other, writer := txBegin(t, db.Connect(t)), txBegin(t, db.Connect(t)), txBegin(t, db.Connect(t))
	txCheck(t, pglock.LockAllTx(t.Context(), reader, keys, pglock.Shared()))
	txCheck(t, pglock.LockAllTx(t.Context(), other, keys, pglock.Shared(), pglock.MaxWait(txLong)))
	err := pglock.LockAllTx(t.Context(), writer, keys, pglock.MaxWait(0))
	if wait := txWantWaitError(t, err, slices.MinFunc(keys, txOrder)); wait.Waited != 0 || len(wait.Holders) != 0 {
		t.Errorf("a call that does not wait: %v, %+v", wait.Waited, wait.Holders)
	}
	err = pglock.LockAllTx(t.Context(), writer, keys, pglock.MaxWait(txShort))
	wait := txWantWaitError(t, err, slices.MinFunc(keys, txOrder))
	if len(wait.Holders) != 2 {
		t.Errorf("the holders are %+v", wait.Holders)
	}
	for _, holder := range wait.Holders {
		if !holder.Shared {
			t.Errorf("a shared holder is %+v", holder)
		}
	}
}
