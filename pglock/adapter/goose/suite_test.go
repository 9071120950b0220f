package goose_test

import (
	"database/sql"
	"testing"
	"testing/fstest"
	"time"

	pressly "github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/goose"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// TestGooseSuite is goose's own suite for its lockers. Each locker is that of a separate process.
func TestGooseSuite(t *testing.T) {
	for backend, open := range map[string]func(t *testing.T, db *testenv.DB) *pglock.Locker{
		"sessions": newLocker, "rows": newRowLocker,
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			db := testenv.Installed(t)
			locker := func(t *testing.T) lock.Locker {
				t.Helper()
				l, err := goose.NewLocker(open(t, db), key)
				must.Succeed(t, err)
				return l
			}
			t.Run("one at a time", func(t *testing.T) {
				locktesting.TestConcurrentLocking(t, newDB(t, db), locker, 2*time.Second)
			})
			t.Run("one migrates", func(t *testing.T) {
				pool := newDB(t, db)
				locktesting.TestProviderLocking(t, func(t *testing.T) *pressly.Provider {
					t.Helper()
					return shopProvider(t, pool, locker(t))
				})
			})
		})
	}
}

func newRowLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	locker, err := rowlock.New(db.Pool(t))
	return must.Closing(t, locker, err)
}

func shopProvider(t *testing.T, db *sql.DB, l lock.Locker) *pressly.Provider {
	t.Helper()
	shop := fstest.MapFS{"1_shop.sql": files["1_shop.sql"], "3_index.sql": files["3_index.sql"]}
	provider, err := pressly.NewProvider(pressly.DialectPostgres, db, shop, pressly.WithLocker(l))
	must.Succeed(t, err)
	return provider
}
