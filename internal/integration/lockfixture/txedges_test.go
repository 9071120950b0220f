package lockfixture_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxdb"
	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

func TestTxKnowsItsQueriesOnly(t *testing.T) {
	t.Parallel()
	db := database(t)
	conn, trips := connect(t, db.ConnString(), pgx.QueryExecModeExec)
	inner := begin(t, conn)
	tx := pgxlocks.Tx(inner)
	ctx := t.Context()
	for _, sql := range []string{
		"", "SELECT 1", "-- name: Nothing :exec\nSELECT 1\n", pgxdb.PayInvoice + " ", "-- name: PayInvoice :exec\nSELECT 1",
		strings.Replace(pgxdb.ListInvoices, "ORDER", "order", 1), strings.TrimPrefix(pgxdb.PayInvoice, "-- name"),
	} {
		n := trips.during(func() {
			_, execErr := tx.Exec(ctx, sql, 1)
			rows, queryErr := tx.Query(ctx, sql, 1)
			rowErr := tx.QueryRow(ctx, sql, 1).Scan()
			batch := &pgx.Batch{}
			batch.Queue(sql, 1)
			results := tx.SendBatch(ctx, batch)
			_, resultErr := results.Exec()
			_, resultsErr := results.Query()
			for i, err := range []error{execErr, queryErr, rows.Err(), rowErr, resultErr, resultsErr, results.QueryRow().Scan(), results.Close()} {
				if !errors.Is(err, querylock.ErrUnknownQuery) {
					t.Errorf("%.30q, %d: the error is %v", sql, i, err)
				}
			}
			if rows.Next() || results.Tx() != nil {
				t.Error("there is a row or a transaction")
			}
			rows.Close()
		})
		if n != 0 {
			t.Errorf("%.30q: %d round trips", sql, n)
		}
	}
	if _, err := tx.Prepare(ctx, "p", pgxdb.PayInvoice); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("Prepare: %v", err)
	}
	wantUsable(t, inner)
}

func TestTxPassesOnWhatHasNoLock(t *testing.T) {
	t.Parallel()
	db := database(t)
	tx := begin(t, db.Connect(t))
	q, ctx := pgxdb.New(nil).WithTx(pgxlocks.Tx(tx)), t.Context()
	n, err := q.AddInvoices(ctx, []pgxdb.AddInvoicesParams{{ID: 100, Tenant: "new"}, {ID: 101, Tenant: "new"}})
	must.Succeed(t, want(err, n, 2))
	count, err := q.CountInvoices(ctx, "new")
	must.Succeed(t, want(err, count, 2))
	invoices, err := q.ListInvoices(ctx)
	must.Succeed(t, want(err, int64(len(invoices)), 12))
	must.Succeed(t, q.PlainInvoices(ctx, []pgxdb.PlainInvoicesParams{{ID: 100}}).Close())
	empty, err := q.LockedInvoices(ctx, nil)
	must.Succeed(t, want(err, int64(len(empty)), 0))
	empty, err = q.LockedInvoices(ctx, []int64{})
	must.Succeed(t, want(err, int64(len(empty)), 0))
	must.Succeed(t, q.PayInvoices(ctx, nil).Close())
	objects := pgxlocks.Tx(tx).LargeObjects()
	_, err = objects.Create(ctx, 0)
	must.Succeed(t, err)
	wantLocks(t, db)
}

func TestTxBeginsSavepointsWithLocks(t *testing.T) {
	t.Parallel()
	db := database(t)
	outer := pgxlocks.Tx(begin(t, db.Connect(t)))
	ctx := t.Context()
	nested, err := outer.Begin(ctx)
	must.Succeed(t, err)
	must.Succeed(t, pgxdb.New(nested).PayInvoice(ctx, 1))
	wantLocks(t, db, pgxlocks.Invoice(1))
	must.Succeed(t, nested.Rollback(ctx))
	wantLocks(t, db)
	again := pgxlocks.Tx(outer)
	must.Succeed(t, pgxdb.New(again).PayInvoice(ctx, 2))
	wantLocks(t, db, pgxlocks.Invoice(2))
	must.Succeed(t, outer.Commit(ctx))
	if err := outer.Commit(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("the second commit: %v", err)
	}
	if err := pgxdb.New(outer).PayInvoice(ctx, 2); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a query after the commit: %v", err)
	}
}

func TestTxOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	ctx, tx := context.Background(), pgxlocks.Tx(nil)
	_, beginErr := tx.Begin(ctx)
	_, listErr := pgxdb.New(tx).ListInvoices(ctx)
	for i, err := range []error{
		pgxdb.New(tx).PayInvoice(ctx, 1), pgxdb.New(tx).PayInvoices(ctx, []int64{1}).Close(), listErr, beginErr,
		tx.SendBatch(ctx, nil).Close(),
	} {
		if err == nil {
			t.Errorf("%d: there is no error", i)
		}
	}
}

// TestTxIsUsableAfterAnyError makes the query itself fail, in every place where it can.
func TestTxIsUsableAfterAnyError(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		run     func(ctx context.Context, tx *querylock.Tx) error
		aborted bool
		want    string
		keys    []pglock.Key
	}{
		"rows that end in an error": {func(ctx context.Context, tx *querylock.Tx) error {
			_, err := pgxdb.New(tx).TenantInvoices(ctx, pgxdb.TenantInvoicesParams{Tenant: "acme", ID: 3})
			return err
		}, true, "division by zero", nil},
		"rows closed early": {func(ctx context.Context, tx *querylock.Tx) error {
			rows, err := tx.Query(ctx, pgxdb.LockedInvoices, []int64{1, 2, 3})
			must.Succeed(t, err)
			if !rows.Next() || rows.Conn() != tx.Conn() || len(rows.FieldDescriptions()) != 2 {
				t.Error("the rows are wrong")
			}
			rows.Close()
			rows.Close()
			return rows.Err()
		}, false, "", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2), pgxlocks.Invoice(3)}},
		"a row that cannot be scanned": {func(ctx context.Context, tx *querylock.Tx) error {
			var id time.Time
			return tx.QueryRow(ctx, pgxdb.GetInvoice, 1).Scan(&id, nil, nil, nil)
		}, false, "scan", []pglock.Key{pgxlocks.Invoice(1)}},
		"rows that cannot be scanned": {func(ctx context.Context, tx *querylock.Tx) error {
			rows, err := tx.Query(ctx, pgxdb.LockedInvoices, []int64{1, 2})
			must.Succeed(t, err)
			var id time.Time
			rows.Next()
			scan := rows.Scan(&id, nil)
			if rows.Next() || rows.Err() == nil {
				t.Errorf("there are more rows: %v", rows.Err())
			}
			return scan
		}, false, "scan", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}},
		"no row": {func(ctx context.Context, tx *querylock.Tx) error {
			_, err := pgxdb.New(tx).GetInvoice(ctx, 4711)
			return err
		}, false, pgx.ErrNoRows.Error(), []pglock.Key{pgxlocks.Invoice(4711)}},
		"collected rows": {func(ctx context.Context, tx *querylock.Tx) error {
			rows, err := tx.Query(ctx, pgxdb.LockedInvoices, []int64{1, 2})
			must.Succeed(t, err)
			invoices, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pgxdb.LockedInvoicesRow])
			return want(err, int64(len(invoices)), 2)
		}, false, "", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}},
		"too few arguments": {func(ctx context.Context, tx *querylock.Tx) error {
			_, err := tx.Exec(ctx, pgxdb.PayInvoice)
			return err
		}, false, "{id} is argument 1 of 0", nil},
		"a batch that is not read": {func(ctx context.Context, tx *querylock.Tx) error {
			return pgxdb.New(tx).PaidInvoices(ctx, []int64{1, 2}).Close()
		}, false, "", []pglock.Key{pgxlocks.Invoice(1), pgxlocks.Invoice(2)}},
	}
	for _, mode := range unlike {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := database(t)
			for name, c := range cases {
				t.Run(name, func(t *testing.T) {
					conn, _ := connect(t, db.ConnString(), mode)
					tx := begin(t, conn)
					err := c.run(t.Context(), pgxlocks.Tx(tx))
					if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
						t.Errorf("the error is %v, want %q", err, c.want)
					}
					if c.aborted {
						wantAborted(t, tx)
						return
					}
					wantUsable(t, tx)
					wantLocks(t, db, c.keys...)
					must.Succeed(t, tx.Rollback(t.Context()))
				})
			}
		})
	}
}

func TestTxTakesSharedAndExclusiveLocksOfOneQuery(t *testing.T) {
	t.Parallel()
	for _, mode := range unlike {
		db := database(t)
		conn, _ := connect(t, db.ConnString(), mode)
		tx := begin(t, conn)
		shares, err := pgxdb.New(pgxlocks.Tx(tx)).TenantInvoices(t.Context(), pgxdb.TenantInvoicesParams{Tenant: "other", ID: 3})
		must.Succeed(t, want(err, int64(len(shares)), 0))
		wantLocks(t, db, pgxlocks.TenantInvoice("other", 3), pgxlocks.NightlyReport())
		for _, lock := range db.AdvisoryLocks(t) {
			if shared := lock.Key == pgxlocks.NightlyReport().Int64(); shared != (lock.Mode == "ShareLock") {
				t.Errorf("%v", lock)
			}
		}
		must.Succeed(t, tx.Rollback(t.Context()))
	}
}
