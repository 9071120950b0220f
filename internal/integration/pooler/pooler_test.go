// Package pooler tests locks in sessions and in transactions through the pooler that the environment names, as the matrix
// does.
package pooler

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// modeVariable is the pooler's mode, transaction or session.
const modeVariable = "PGLOCK_TEST_POOLER_MODE"

func newPool(t *testing.T, mode string) *pgxpool.Pool {
	t.Helper()
	if os.Getenv(testenv.PoolerVariable) == "" || os.Getenv(modeVariable) != mode {
		t.Skipf("%s and %s name no pooler of this mode: %s", testenv.PoolerVariable, modeVariable, mode)
	}
	db := testenv.Database(t)
	pool, err := pgxpool.New(context.Background(), testenv.Pooled(t, db)+"&default_query_exec_mode=exec")
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPoolerOfTransactionsIsRefused(t *testing.T) {
	pool := newPool(t, "transaction")
	locker, err := pglock.New(pool)
	must.Closing(t, locker, err)
	for range 20 { // whichever session the pooler gives
		if _, err := locker.Lock(t.Context(), pglock.NewKey("pooled")); !errors.Is(err, pglock.ErrPooler) {
			t.Fatalf("got %v, want ErrPooler", err)
		}
	}
}

func TestPoolerOfTransactionsLocksInTransactions(t *testing.T) { locksInTransactions(t, "transaction") }
func TestPoolerOfSessionsLocksInTransactions(t *testing.T)     { locksInTransactions(t, "session") }

func locksInTransactions(t *testing.T, mode string) {
	pool := newPool(t, mode)
	key := pglock.NewKey("pooled")
	for range 20 {
		must.Succeed(t, pglock.BeginFunc(t.Context(), pool, key, func(context.Context, pgx.Tx) error {
			err := pglock.BeginFunc(t.Context(), pool, key, func(context.Context, pgx.Tx) error { return nil }, pglock.MaxWait(0))
			if !errors.Is(err, pglock.ErrNotAcquired) {
				t.Errorf("got %v, want ErrNotAcquired", err)
			}
			return nil
		}))
	}
}

func TestPoolerOfSessionsLocksWithAllowPooler(t *testing.T) {
	pool := newPool(t, "session")
	locker, err := pglock.New(pool, pglock.AllowPooler())
	must.Closing(t, locker, err)
	other, err := pglock.New(pool, pglock.AllowPooler())
	must.Closing(t, other, err)
	for range 20 {
		lock, err := locker.Lock(t.Context(), pglock.NewKey("pooled"))
		must.Succeed(t, err)
		if _, err := other.TryLock(t.Context(), pglock.NewKey("pooled")); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("got %v, want ErrNotAcquired", err)
		}
		must.Succeed(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return lock.GuardTx(t.Context(), tx) }))
		must.Succeed(t, lock.Unlock(t.Context()))
	}
}
