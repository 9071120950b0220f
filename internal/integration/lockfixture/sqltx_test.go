package lockfixture_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/stddb"
	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/stdlocks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

var _ stddb.DBTX = stdlocks.Tx(nil)

// sqlCall is a query of the fixture, which locks keys.
type sqlCall struct {
	name      string
	keys      []pglock.Key
	waits     bool
	savepoint bool
	run       func(ctx context.Context, q *stddb.Queries) error
}

var sqlCalls = []sqlCall{
	{"exec", []pglock.Key{stdlocks.Invoice(1)}, true, false,
		func(ctx context.Context, q *stddb.Queries) error { return q.PayInvoice(ctx, 1) }},
	{"execrows", []pglock.Key{stdlocks.Invoice(1)}, false, false,
		func(ctx context.Context, q *stddb.Queries) error {
			n, err := q.PayInvoiceRows(ctx, 1)
			return want(err, n, 1)
		}},
	{"execresult", []pglock.Key{stdlocks.Invoice(1)}, false, false,
		func(ctx context.Context, q *stddb.Queries) error {
			result, err := q.PayInvoiceResult(ctx, 1)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			return want(err, n, 1)
		}},
	{"one", []pglock.Key{stdlocks.Invoice(1)}, true, false,
		func(ctx context.Context, q *stddb.Queries) error {
			invoice, err := q.GetInvoice(ctx, 1)
			return want(err, invoice.ID, 1)
		}},
	{"one with savepoint", []pglock.Key{stdlocks.Invoice(1)}, false, true,
		func(ctx context.Context, q *stddb.Queries) error {
			invoice, err := q.NoteInvoice(ctx, stddb.NoteInvoiceParams{ID: 1})
			return want(err, invoice.ID, 1)
		}},
	{"many of an array", []pglock.Key{stdlocks.Invoice(1), stdlocks.Invoice(2)}, false, true,
		func(ctx context.Context, q *stddb.Queries) error {
			invoices, err := q.LockedInvoices(ctx, []int64{2, 1, 2})
			return want(err, int64(len(invoices)), 2)
		}},
	{"many, shared and exclusive", []pglock.Key{stdlocks.TenantInvoice("a:b", 1), stdlocks.NightlyReport()}, true, false,
		func(ctx context.Context, q *stddb.Queries) error {
			_, err := q.TenantInvoices(ctx, stddb.TenantInvoicesParams{Tenant: "a:b", ID: 1})
			return err
		}},
	{"uuid and time", []pglock.Key{stdlocks.Document([16]byte{15: 1}, 7, time.UnixMicro(1), true)}, true, false,
		func(ctx context.Context, q *stddb.Queries) error {
			return q.TouchDocument(ctx, stddb.TouchDocumentParams{ID: "00000000-0000-0000-0000-000000000001", Version: 7,
				Seen: time.UnixMicro(1), Fresh: true})
		}},
}

// sqlDatabases opens a database with both drivers.
func sqlDatabases(t *testing.T, db *testenv.DB) map[string]*sql.DB {
	t.Helper()
	pq, err := sql.Open("postgres", db.ConnString()+"&sslmode=disable")
	if !strings.Contains(db.ConnString(), "?") {
		pq, err = sql.Open("postgres", db.ConnString()+"?sslmode=disable")
	}
	must.Succeed(t, err)
	config, err := pgx.ParseConfig(db.ConnString())
	must.Succeed(t, err)
	all := map[string]*sql.DB{"pgx": stdlib.OpenDB(*config), "pq": pq}
	t.Cleanup(func() {
		for _, db := range all {
			must.Succeed(t, db.Close())
		}
	})
	return all
}

func sqlBegin(t *testing.T, db *sql.DB, isolation sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: isolation})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("roll back: %v", err)
		}
	})
	return tx
}

func sqlUsable(tx *sql.Tx) bool {
	var n int
	return tx.QueryRow("SELECT 42").Scan(&n) == nil && n == 42
}

func TestSQLTxTakesTheLocksOfItsQueries(t *testing.T) {
	t.Parallel()
	db := database(t)
	for driver, pool := range sqlDatabases(t, db) {
		for _, c := range sqlCalls {
			t.Run(driver+"/"+c.name, func(t *testing.T) {
				tx := sqlBegin(t, pool, sql.LevelDefault)
				q := stddb.New(stdlocks.Tx(tx))
				must.Succeed(t, c.run(t.Context(), q))
				wantLocks(t, db, c.keys...)
				must.Succeed(t, tx.Rollback())

				held := c.keys[0] // of two, the key that is requested last
				release := hold(t, db, held)
				tx = sqlBegin(t, pool, sql.LevelDefault)
				q = stddb.New(stdlocks.Tx(tx))
				result := make(chan error, 1)
				go func() { result <- c.run(t.Context(), q) }()
				if c.waits {
					db.WaitForWaiters(t, 1)
					release()
					must.Succeed(t, <-result)
					wantLocks(t, db, c.keys...)
					must.Succeed(t, tx.Rollback())
					return
				}
				err := <-result
				if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || !wait.Keys[0].Equal(held) || (wait.Waited == 0) != tries(c.name) {
					t.Errorf("the error is %v after %v, want a WaitError of %v", err, wait.Waited, held)
				}
				if usable := sqlUsable(tx); usable != c.savepoint {
					t.Errorf("the transaction can continue: %t, want %t", usable, c.savepoint)
				}
				release()
				must.Succeed(t, tx.Rollback())
			})
		}
	}
}

func TestSQLTxRefusesASnapshotOlderThanTheLock(t *testing.T) {
	t.Parallel()
	db := database(t)
	for driver, pool := range sqlDatabases(t, db) {
		for _, c := range sqlCalls {
			tx := sqlBegin(t, pool, sql.LevelRepeatableRead)
			if err := c.run(t.Context(), stddb.New(stdlocks.Tx(tx))); !errors.Is(err, pglock.ErrStaleSnapshot) {
				t.Errorf("%s, %s: the error is %v", driver, c.name, err)
			}
			must.Succeed(t, tx.Rollback())
		}
	}
}

// TestSQLTxReadsWhatTheLastHolderWrote would fail if lock and query were one statement.
func TestSQLTxReadsWhatTheLastHolderWrote(t *testing.T) {
	t.Parallel()
	db := database(t)
	for driver, pool := range sqlDatabases(t, db) {
		writer, tx := begin(t, db.Connect(t)), sqlBegin(t, pool, sql.LevelDefault)
		must.Succeed(t, pglock.LockTx(t.Context(), writer, stdlocks.Invoice(3)))
		got := make(chan stddb.Invoice, 1)
		go func() {
			invoice, err := stddb.New(stdlocks.Tx(tx)).GetInvoice(t.Context(), 3)
			if err != nil {
				t.Error(err)
			}
			got <- invoice
		}()
		db.WaitForWaiters(t, 1)
		_, err := writer.Exec(t.Context(), "UPDATE invoices SET note = $1 WHERE id = 3", driver)
		must.Succeed(t, err)
		must.Succeed(t, writer.Commit(t.Context()))
		if invoice := <-got; invoice.Note.String != driver {
			t.Error("it has read the row from before the lock")
		}
		must.Succeed(t, tx.Rollback())
	}
}

func TestSQLTxKnowsItsQueriesOnly(t *testing.T) {
	t.Parallel()
	db, ctx := database(t), t.Context()
	for _, pool := range sqlDatabases(t, db) {
		tx := sqlBegin(t, pool, sql.LevelDefault)
		locked := stdlocks.Tx(tx)
		_, execErr := locked.ExecContext(ctx, "SELECT 1")
		_, queryErr := locked.QueryContext(ctx, "SELECT 1")
		row := locked.QueryRowContext(ctx, "SELECT 1")
		for _, err := range []error{execErr, queryErr, row.Err(), row.Scan()} {
			if !errors.Is(err, querylock.ErrUnknownQuery) {
				t.Errorf("the error is %v", err)
			}
		}
		if _, err := locked.PrepareContext(ctx, "SELECT 1"); !errors.Is(err, pglock.ErrUnsupported) {
			t.Errorf("prepare: %v", err)
		}
		_, err := stddb.New(locked).TenantInvoices(ctx, stddb.TenantInvoicesParams{Tenant: strings.Repeat("x", 1<<20)})
		if !errors.Is(err, pglock.ErrInvalidKey) {
			t.Errorf("the error is %.100v", err)
		}
		n, err := stddb.New(locked).CountInvoices(ctx, "acme")
		must.Succeed(t, want(err, n, 10))
		empty, err := stddb.New(locked).LockedInvoices(ctx, nil)
		must.Succeed(t, want(err, int64(len(empty)), 0))
		wantLocks(t, db)
	}
	for _, tx := range []*querylock.SQLTx{stdlocks.Tx(nil), nil} {
		_, rowErr := stddb.New(tx).GetInvoice(ctx, 1)
		if err := stddb.New(tx).PayInvoice(ctx, 1); err == nil || rowErr == nil {
			t.Errorf("a nil transaction: %v, %v", err, rowErr)
		}
	}
}
