package schedule_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestScheduleInMemory(t *testing.T) {
	t.Parallel()
	server := locktest.NewServer()
	scheduletest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := server.Locker(opts...)
		return must.Closing(t, l, err)
	})
}

func TestScheduleOnPostgresPassesTheSuite(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	scheduletest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker { return open(t, pool, opts...) })
}

// installed returns a pool for a new database that has the schema.
func installed(t *testing.T) (*testenv.DB, *pgxpool.Pool) {
	t.Helper()
	db := testenv.Installed(t)
	return db, db.Pool(t)
}

func open(t testing.TB, pool *pgxpool.Pool, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.New(pool, opts...)
	return must.Closing(t, l, err)
}
