package locktest_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

// send sends a batch with a lock and a statement behind it.
func send(t *testing.T, tx pgx.Tx, queue func(*pgx.Batch)) error {
	t.Helper()
	b := &pgx.Batch{}
	b.Queue("update before")
	queue(b)
	b.Queue("update behind")
	return tx.SendBatch(t.Context(), b).Close()
}

func TestLocksOfABatchInMemoryLastUntilTheTransactionEnds(t *testing.T) {
	server, ctx := locktest.NewServer(), t.Context()
	a, b, c := pglock.NewKey("a"), pglock.Int64Key(2), pglock.PairKey(3, 4)
	for name, queue := range map[string]func(*pgx.Batch){
		"QueueLockTx":              func(batch *pgx.Batch) { pglock.QueueLockTx(batch, b) },
		"QueueLockTx with MaxWait": func(batch *pgx.Batch) { pglock.QueueLockTx(batch, b, pglock.MaxWait(time.Minute)) },
		"a try":                    func(batch *pgx.Batch) { pglock.QueueLockTx(batch, b, pglock.MaxWait(0)) },
		"QueueLockAllTx":           func(batch *pgx.Batch) { pglock.QueueLockAllTx(batch, []pglock.Key{c, b, a}) },
		"a try of several":         func(batch *pgx.Batch) { pglock.QueueLockAllTx(batch, []pglock.Key{c, b, a}, pglock.MaxWait(0)) },
	} {
		tx := server.Tx(nil)
		must.Succeed(t, send(t, tx, queue))
		if got := tx.Statements(); !slices.Equal(got, []string{"update before", "update behind"}) {
			t.Errorf("%s: the statements are %q", name, got)
		}
		other := server.Tx(nil)
		err := send(t, other, func(batch *pgx.Batch) {
			pglock.QueueLockAllTx(batch, []pglock.Key{b, pglock.Int64Key(1)}, pglock.MaxWait(0))
		})
		wait := (*pglock.WaitError)(nil)
		if !errors.As(err, &wait) || !wait.Keys[0].Equal(b) || len(wait.Keys) != 2 {
			t.Errorf("%s: another transaction's try: %v", name, err)
		}
		if got := other.Statements(); !slices.Equal(got, []string{"update before"}) {
			t.Errorf("%s: after a refusal the statements are %q", name, got)
		}
		if err := other.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Errorf("%s: the commit after a refusal: %v", name, err)
		}
		must.Succeed(t, tx.Commit(ctx))
		last := server.Tx(nil)
		must.Succeed(t, pglock.TryLockTx(ctx, last, b))
		must.Succeed(t, last.Rollback(ctx))
	}
}

func TestWaitsOfABatchInMemoryEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, ctx, key := locktest.NewServer(), t.Context(), pglock.NewKey("k")
		holder := server.Tx(nil)
		must.Succeed(t, pglock.LockTx(ctx, holder, key))
		began := time.Now()
		err := send(t, server.Tx(nil), func(b *pgx.Batch) { pglock.QueueLockTx(b, key, pglock.MaxWait(time.Minute)) })
		if !errors.Is(err, pglock.ErrNotAcquired) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		go func() {
			time.Sleep(time.Hour)
			_ = holder.Commit(ctx)
		}()
		must.Succeed(t, send(t, server.Tx(nil), func(b *pgx.Batch) { pglock.QueueLockTx(b, key) }))
	})
}

func TestAnInvalidLockFailsItsBatchInMemory(t *testing.T) {
	tx := locktest.NewServer().Tx(nil)
	err := send(t, tx, func(b *pgx.Batch) { pglock.QueueLockTx(b, pglock.Key{}) })
	if !errors.Is(err, pglock.ErrInvalidKey) || len(tx.Statements()) > 0 {
		t.Errorf("got %v, with the statements %q", err, tx.Statements())
	}
}

// payInvoice is the text of a query with a lock, in the form in which sqlc writes it.
const payInvoice = "-- name: PayInvoice :exec\nUPDATE invoices SET paid = true WHERE id = $1\n"

// locks stands for a generated package.
func locks(options string) *querylock.Set {
	return querylock.NewSet([]string{"invoice:{id bigint}"}, []querylock.Query{
		{Name: "PayInvoice", Digest: querylock.Digest(payInvoice), Locks: []string{"invoice:{id=$1} " + options}},
	})
}

func TestQueriesTakeTheirLocksInMemory(t *testing.T) {
	server, ctx := locktest.NewServer(), t.Context()
	tx := server.Tx(nil)
	_, err := locks("").Tx(tx).Exec(ctx, payInvoice, int64(42))
	must.Succeed(t, err)
	if got := tx.Statements(); !slices.Equal(got, []string{payInvoice}) {
		t.Errorf("the statements are %q", got)
	}
	other := server.Tx(nil)
	must.Succeed(t, pglock.LockTx(ctx, other, pglock.NewKey("first")))
	trying := locks("try savepoint").Tx(other)
	if _, err = trying.Exec(ctx, payInvoice, int64(42)); !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("another transaction's query: %v", err)
	}
	_, err = trying.Exec(ctx, payInvoice, int64(43))
	must.Succeed(t, err)
	must.Succeed(t, other.Commit(ctx))
	if got := other.Statements(); !slices.Equal(got, []string{payInvoice}) {
		t.Errorf("the statements of the other are %q", got)
	}
	aborted := server.Tx(nil)
	_, err = locks("try").Tx(aborted).Exec(ctx, payInvoice, int64(42))
	wantError(t, err, pglock.ErrNotAcquired, "without a savepoint")
	_, err = locks("try").Tx(aborted).Exec(ctx, payInvoice, int64(43))
	if failed, ok := errors.AsType[*pgconn.PgError](err); !ok || failed.Code != sqlstate.InFailedTransaction || errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("the next query: %v", err)
	}
	wantError(t, aborted.Commit(ctx), pgx.ErrTxCommitRollback, "without a savepoint the commit")
	must.Succeed(t, tx.Commit(ctx))
}
