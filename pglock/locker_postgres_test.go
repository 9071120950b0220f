package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// openLocker returns a Locker on db, closed when the test ends at the latest.
func openLocker(t testing.TB, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t), opts...)
	must.Succeed(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

// closeLocker does not wait for ever for the locks of a test that has failed.
func closeLocker(t testing.TB, l *pglock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

// migrate installs the schema.
func migrate(t testing.TB, db *testenv.DB) {
	t.Helper()
	must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))
}
