package locktest_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgresPassesTheSuite(t *testing.T) {
	db := testenv.Installed(t)
	locktest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := pglock.NewWithConfig(db.Config(t), opts...)
		return must.Closing(t, l, err)
	})
}
