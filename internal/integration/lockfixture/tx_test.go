package lockfixture_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxdb"
	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

var _ pgx.Tx = (*querylock.Tx)(nil)
var _ pgxdb.DBTX = pgxlocks.Tx(nil)

// call is a query of the fixture, which locks keys.
type call struct {
	name      string
	keys      []pglock.Key
	statement string // the query and its locks as a hand-written batch
	args      []any
	waits     bool // without a bound; else a refusal leaves the transaction as it was
	run       func(ctx context.Context, q *pgxdb.Queries) error
}

var calls = []call{
	{"exec", []pglock.Key{pgxlocks.Invoice(1)}, pgxdb.PayInvoice, []any{int64(1)}, true,
		func(ctx context.Context, q *pgxdb.Queries) error { return q.PayInvoice(ctx, 1) }},
	{"execrows", []pglock.Key{pgxlocks.Invoice(1)}, pgxdb.PayInvoiceRows, []any{int64(1)}, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			n, err := q.PayInvoiceRows(ctx, 1)
			return want(err, n, 1)
		}},
	{"execresult", []pglock.Key{pgxlocks.Invoice(1)}, pgxdb.PayInvoiceResult, []any{int64(1)}, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			tag, err := q.PayInvoiceResult(ctx, 1)
			return want(err, tag.RowsAffected(), 1)
		}},
	{"one", []pglock.Key{pgxlocks.Invoice(1)}, pgxdb.GetInvoice, []any{int64(1)}, true,
		func(ctx context.Context, q *pgxdb.Queries) error {
			invoice, err := q.GetInvoice(ctx, 1)
			return want(err, invoice.ID, 1)
		}},
	{"one once", []pglock.Key{pgxlocks.Invoice(1)}, pgxdb.NoteInvoice, []any{"hello", int64(1)}, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			invoice, err := q.NoteInvoice(ctx, pgxdb.NoteInvoiceParams{ID: 1})
			return want(err, invoice.ID, 1)
		}},
	{"many of an array", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}, pgxdb.LockedInvoices,
		[]any{[]int64{2, 1, 2}}, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			invoices, err := q.LockedInvoices(ctx, []int64{2, 1, 2})
			return want(err, int64(len(invoices)), 2)
		}},
	{"many of a slice", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}, pgxdb.SliceInvoices,
		[]any{[]int64{2, 1, 2}}, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			invoices, err := q.SliceInvoices(ctx, []int64{2, 1, 2})
			return want(err, int64(len(invoices)), 2)
		}},
	{"batchexec", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}, pgxdb.PayInvoices, nil, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			var err error
			q.PayInvoices(ctx, []int64{2, 1, 2}).Exec(func(_ int, e error) { err = errors.Join(err, e) })
			return err
		}},
	{"batchmany", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}, pgxdb.PaidInvoices, nil, true,
		func(ctx context.Context, q *pgxdb.Queries) error {
			var err error
			q.PaidInvoices(ctx, []int64{2, 1}).Query(func(_ int, rows []pgxdb.PaidInvoicesRow, e error) {
				err = errors.Join(err, want(e, int64(len(rows)), 1))
			})
			return err
		}},
	{"batchone once", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}, pgxdb.OneInvoice, nil, false,
		func(ctx context.Context, q *pgxdb.Queries) error {
			var err error
			q.OneInvoice(ctx, []int64{2, 1}).QueryRow(func(_ int, _ pgxdb.OneInvoiceRow, e error) { err = errors.Join(err, e) })
			return err
		}},
}

// tries reports whether the query does not wait, so that its error says which lock is held.
func tries(name string) bool {
	return slices.Contains([]string{"execresult", "many of an array", "many of a slice", "batchone once"}, name)
}

func want(err error, got, want int64) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %d, want %d", got, want)
	}
	return err
}

// everyCall runs a test for each call in some modes.
func everyCall(t *testing.T, modes []pgx.QueryExecMode, test func(t *testing.T, db *testenv.DB, mode pgx.QueryExecMode, c call)) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := database(t)
			for _, c := range calls {
				t.Run(c.name, func(t *testing.T) { test(t, db, mode, c) })
			}
		})
	}
}

func TestTxTakesTheLocksOfItsQueries(t *testing.T) {
	everyCall(t, modes, func(t *testing.T, db *testenv.DB, mode pgx.QueryExecMode, c call) {
		conn, _ := connect(t, db.ConnString(), mode)
		tx := begin(t, conn)
		must.Succeed(t, c.run(t.Context(), pgxdb.New(pgxlocks.Tx(tx))))
		wantLocks(t, db, c.keys...)
		wantUsable(t, tx)
		must.Succeed(t, tx.Rollback(t.Context()))
	})
}

func TestTxRunsNothingWithoutItsLock(t *testing.T) {
	everyCall(t, unlike, func(t *testing.T, db *testenv.DB, mode pgx.QueryExecMode, c call) {
		conn, _ := connect(t, db.ConnString(), mode)
		held := c.keys[0] // of two, the key that is requested last
		release := hold(t, db, held)
		tx := begin(t, conn)
		refusals := 0
		q := pgxdb.New(pgxlocks.Tx(tx, pglock.WithObserver(func(_ context.Context, e pglock.Event) {
			if errors.Is(e.Err, pglock.ErrNotAcquired) {
				refusals++
			}
		})))
		if c.waits {
			result := make(chan error, 1)
			go func() { result <- c.run(t.Context(), q) }()
			db.WaitForWaiters(t, 1)
			release()
			must.Succeed(t, <-result)
			wantLocks(t, db, c.keys...)
			wantUsable(t, tx)
			must.Succeed(t, tx.Rollback(t.Context()))
			return
		}
		err := c.run(t.Context(), q)
		if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || !strings.Contains(err.Error(), "query ") {
			t.Errorf("the error is %v, want a WaitError", err)
		} else if !slices.ContainsFunc(wait.Keys, held.Equal) || (wait.Waited == 0) != tries(c.name) {
			t.Errorf("the keys are %v and it waited %v: %v", wait.Keys, wait.Waited, err)
		} else if (len(wait.Holders) == 1) == tries(c.name) || strings.Contains(err.Error(), "held by pid ") == tries(c.name) {
			t.Errorf("a holder is named who should not be, or not named: %v", err)
		}
		if refusals != 1 {
			t.Errorf("the Observer was told of %d refusals", refusals)
		}
		wantUsable(t, tx)
		wantLocks(t, db, held)
		release()
		must.Succeed(t, c.run(t.Context(), q))
		wantLocks(t, db, c.keys...)
		must.Succeed(t, tx.Rollback(t.Context()))
	})
}

func TestTxRefusesASnapshotOlderThanTheLock(t *testing.T) {
	everyCall(t, unlike, func(t *testing.T, db *testenv.DB, mode pgx.QueryExecMode, c call) {
		for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			conn, _ := connect(t, db.ConnString(), mode)
			tx := begin(t, conn, isolation)
			if err := c.run(t.Context(), pgxdb.New(pgxlocks.Tx(tx))); !errors.Is(err, pglock.ErrStaleSnapshot) {
				t.Errorf("%s: the error is %v", isolation, err)
			}
			wantLocks(t, db)
			if !c.waits {
				wantUsable(t, tx)
				must.Succeed(t, tx.Rollback(t.Context()))
			} else {
				wantAborted(t, tx)
			}
		}
	})
}

// TestTxReadsWhatTheLastHolderWrote would fail if lock and query were one statement.
func TestTxReadsWhatTheLastHolderWrote(t *testing.T) {
	t.Parallel()
	for _, mode := range unlike {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := database(t)
			conn, _ := connect(t, db.ConnString(), mode)
			writer, tx := begin(t, db.Connect(t)), begin(t, conn)
			must.Succeed(t, pglock.LockTx(t.Context(), writer, pgxlocks.Invoice(3)))
			got := make(chan pgxdb.Invoice, 1)
			go func() {
				invoice, err := pgxdb.New(pgxlocks.Tx(tx)).GetInvoice(t.Context(), 3)
				if err != nil {
					t.Error(err)
				}
				got <- invoice
			}()
			db.WaitForWaiters(t, 1)
			//pglock:allow this one is to take no lock
			must.Succeed(t, pgxdb.New(writer).PayInvoice(t.Context(), 3))
			must.Succeed(t, writer.Commit(t.Context()))
			if invoice := <-got; !invoice.Paid {
				t.Error("it has read the row from before the lock")
			}
		})
	}
}

// TestTxIsAsManyRoundTripsAsABatchByHand counts on the wire, for connections that know the statements and for new ones.
func TestTxIsAsManyRoundTripsAsABatchByHand(t *testing.T) {
	t.Parallel()
	db := database(t)
	ways := map[string]string{"direct": db.ConnString(), "pooler": testenv.PgBouncer(t, db, testenv.TransactionPooling)}
	for way, connString := range ways {
		for _, mode := range modes {
			if way == "pooler" && mode == pgx.QueryExecModeCacheStatement {
				continue // many poolers do not support named prepared statements
			}
			for _, c := range calls {
				if c.args == nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", way, mode, c.name), func(t *testing.T) {
					ours, oursTurns := connect(t, connString, mode)
					theirs, theirTurns := connect(t, connString, mode)
					for i := range 2 {
						a, b := begin(t, ours), begin(t, theirs)
						n := oursTurns.during(func() { must.Succeed(t, c.run(t.Context(), pgxdb.New(pgxlocks.Tx(a)))) })
						must.Succeed(t, a.Rollback(t.Context()))
						m := theirTurns.during(func() { must.Succeed(t, byHand(t.Context(), b, c)) })
						must.Succeed(t, b.Rollback(t.Context()))
						if n != m || (n != 1 && mode != pgx.QueryExecModeDescribeExec && i > 0) {
							t.Errorf("call %d took %d round trips, a batch by hand %d", i+1, n, m)
						}
					}
				})
			}
		}
	}
}

func byHand(ctx context.Context, tx pgx.Tx, c call) error {
	batch := &pgx.Batch{}
	if len(c.keys) == 1 {
		pglock.QueueLockTx(batch, c.keys[0])
	} else {
		pglock.QueueLockAllTx(batch, c.keys)
	}
	batch.Queue(c.statement, c.args...)
	return tx.SendBatch(ctx, batch).Close()
}
