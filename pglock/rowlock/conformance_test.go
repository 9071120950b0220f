package rowlock_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

func TestLongSuitePassesDirectly(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	locktest.Exercise(t, opener(pool))
}

func TestSuitePassesThroughAPoolerOfTransactions(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	locktest.Exercise(t, opener(pooled(t, db)))
}

// installed returns a database with the schema, and a pool of its owner.
func installed(t *testing.T) (*pgxpool.Pool, *testenv.DB) {
	t.Helper()
	db := testenv.Installed(t)
	return db.Pool(t), db
}

// pooled returns a pool that goes through a pooler of transactions, where the application prepares no statements.
func pooled(t *testing.T, db *testenv.DB) *pgxpool.Pool {
	t.Helper()
	return connect(t, testenv.Pooled(t, db)+"&default_query_exec_mode=exec")
}

func connect(t *testing.T, connString string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), connString)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func opener(pool *pgxpool.Pool) locktest.Opener {
	return func(t testing.TB, opts ...pglock.Option) *pglock.Locker { return open(t, pool, opts...) }
}

// open returns a Locker that is closed when the test ends.
func open(t testing.TB, pool *pgxpool.Pool, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := rowlock.New(pool, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx) // it ends what is held
	})
	return l
}
