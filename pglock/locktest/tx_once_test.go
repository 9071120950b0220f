package locktest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

func scope(t *testing.T) *once.Scope {
	t.Helper()
	s, err := once.New(pglock.NewKey("emails"))
	must.Succeed(t, err)
	return s
}

func TestOnceInMemoryIsDoneByTheTransactionThatCommits(t *testing.T) {
	server, ctx, s := locktest.NewServer(), t.Context(), scope(t)
	first := server.Tx(nil)
	must.Succeed(t, s.Tx(ctx, first, "42"))
	wantError(t, s.Tx(ctx, first, "42"), pglock.ErrDone, "again in the same transaction")
	wantError(t, s.Tx(ctx, server.Tx(nil), "42", pglock.MaxWait(0)), pglock.ErrNotAcquired, "another one at the same time")
	must.Succeed(t, s.Tx(ctx, server.Tx(nil), "43"))
	must.Succeed(t, first.Rollback(ctx))

	second := server.Tx(nil)
	nested, err := second.Begin(ctx)
	must.Succeed(t, err)
	must.Succeed(t, s.Tx(ctx, nested, "42"))
	must.Succeed(t, nested.Rollback(ctx))
	must.Succeed(t, s.Matching([]byte("a")).Tx(ctx, second, "42"))
	must.Succeed(t, second.Commit(ctx))

	third := server.Tx(nil)
	done := (*once.DoneError)(nil)
	if err := s.Tx(ctx, third, "42"); !errors.As(err, &done) || done.At.IsZero() || done.ID != "42" {
		t.Errorf("after the commit: %v", err)
	}
	wantError(t, s.Matching([]byte("b")).Tx(ctx, third, "42"), once.ErrMismatch, "other contents")
	must.Succeed(t, third.Commit(ctx))
}

func TestOnceInMemoryReplaysResults(t *testing.T) {
	server, ctx, s := locktest.NewServer(), t.Context(), scope(t)
	for replay := range 2 {
		tx := server.Tx(nil)
		got, replayed, err := once.Result(ctx, tx, s, "42", func(pgx.Tx) (string, error) { return "sent", nil })
		if err != nil || got != "sent" || replayed != (replay == 1) {
			t.Errorf("call %d: %q, %v, %v", replay, got, replayed, err)
		}
		must.Succeed(t, tx.Commit(ctx))
	}
}

func TestOnceInMemoryFailsTheBatchOfADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx, s := locktest.NewServer(), t.Context(), scope(t)
		first := server.Tx(nil)
		must.Succeed(t, send(t, first, func(b *pgx.Batch) { s.Queue(b, "42") }))
		go func() {
			time.Sleep(time.Hour)
			_ = first.Commit(ctx)
		}()
		wantError(t, send(t, server.Tx(nil), func(b *pgx.Batch) { s.Queue(b, "42", pglock.MaxWait(0)) }), pglock.ErrNotAcquired, "one that does not wait")
		second := server.Tx(nil)
		wantError(t, send(t, second, func(b *pgx.Batch) { s.Queue(b, "42") }), pglock.ErrDone, "one that waits")
		if got := second.Statements(); len(got) != 1 {
			t.Errorf("the statements of the duplicate are %q", got)
		}
	})
}
