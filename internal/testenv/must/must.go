// Package must fails tests whose preparations do not work. It imports nothing of ours, so that every package's tests
// can use it.
package must

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Succeed ends the test if err is not nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Closing takes what a constructor has returned, and closes it when the test ends.
func Closing[C interface{ Close(context.Context) error }](t testing.TB, made C, err error) C {
	t.Helper()
	Succeed(t, err)
	t.Cleanup(func() { Succeed(t, made.Close(context.Background())) })
	return made
}

// One returns the one value that a query has, in its first row.
func One[T any](t testing.TB, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, sql string, args ...any) (value T) {
	t.Helper()
	Succeed(t, db.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}
