package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestFromContext(t *testing.T) {
	l, err := locktest.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	if lock, ok := pglock.FromContext(t.Context()); ok || lock != nil {
		t.Errorf("a context of no lock carries %v", lock)
	}
	is := func(what string, ctx context.Context, want *pglock.Lock) {
		t.Helper()
		if lock, ok := pglock.FromContext(ctx); !ok || lock != want {
			t.Errorf("%s carries %v, %v; want %v", what, lock, ok, want)
		}
	}
	err = l.Do(t.Context(), pglock.NewKey("outer"), func(ctx context.Context, outer *pglock.Lock) error {
		is("the context of Do", ctx, outer)
		derived, cancel := context.WithTimeout(context.WithValue(ctx, contextKey{}, 1), time.Hour)
		defer cancel()
		is("a derived context", derived, outer)
		is("a context without its end", context.WithoutCancel(ctx), outer)
		is("a context with the values of another", outer.Context(context.WithValue(context.Background(), contextKey{}, 1)), outer)
		return l.TryDo(ctx, pglock.NewKey("inner"), func(ctx context.Context, inner *pglock.Lock) error {
			is("the inner context", ctx, inner)
			is("the inner lock's context of a parent that does not end", inner.Context(context.WithoutCancel(ctx)), inner)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
