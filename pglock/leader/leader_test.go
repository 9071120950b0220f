package leader_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/suites/leadertest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestLeaderOnMemoryPassesTheSuite(t *testing.T) {
	server := locktest.NewServer()
	leadertest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := server.Locker(opts...)
		return must.Closing(t, l, err)
	}, func(t testing.TB, key pglock.Key) { server.Lose(key) })
}

func TestLeaderOnPostgresPassesTheSuite(t *testing.T) {
	db := testenv.Database(t)
	leadertest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return openLocker(t, db, opts...)
	}, func(t testing.TB, key pglock.Key) { db.TerminateHolder(t, key.Int64(), int16(key.ID().Space)) })
}

// openLocker returns a Locker on db that is closed when the test ends, if not before.
func openLocker(t testing.TB, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t), opts...)
	return must.Closing(t, l, err)
}
