package golangmigrate_test

import (
	"testing"

	suite "github.com/golang-migrate/migrate/v4/database/testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/golangmigrate"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// TestMigrateSuite is golang-migrate's own suite for its drivers.
func TestMigrateSuite(t *testing.T) {
	for backend, open := range map[string]func(t *testing.T, db *testenv.DB) *pglock.Locker{
		"sessions": newLocker, "rows": newRowLocker,
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			db := testenv.Installed(t)
			driver, err := golangmigrate.Open(t.Context(), open(t, db), pglock.NewKey("migrations"), opener(t, db))
			must.Succeed(t, err)
			suite.Test(t, driver, files["1_shop.up.sql"].Data)
			must.Succeed(t, driver.Close())
		})
	}
}

func newRowLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	locker, err := rowlock.New(db.Pool(t))
	return must.Closing(t, locker, err)
}
