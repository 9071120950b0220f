package pglock_test

import (
	"context"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// openLocker returns a Locker on db, closed when the test ends at the latest.
func openLocker(t testing.TB, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// migrate installs the schema.
func migrate(t testing.TB, db *testenv.DB) {
	t.Helper()
	if err := migrations.Up(t.Context(), db.Pool(t)); err != nil {
		t.Fatal(err)
	}
}
