package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock"
)

// transaction is a Tx in the form that package pglock takes. It does only what the statements of locks need: it
// executes them one at a time, whatever way the driver has, and reads at most one row.
type transaction struct{ tx Tx }

var _ pgx.Tx = (*transaction)(nil)

// Conn returns nil: the connection is the driver's.
func (*transaction) Conn() *pgx.Conn { return nil }

func (t *transaction) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	n, err := t.rows(ctx, query, args)
	return pgconn.NewCommandTag("SELECT " + strconv.FormatInt(n, 10)), err
}

// QueryRow runs a statement of one row, which is refused on CockroachDB.
func (t *transaction) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	rows, err := t.query(ctx, onPostgres(query), args)
	return &row{rows, err}
}

// onPostgres changes a query so that it has no row on CockroachDB. Unlike pgx, database/sql does not report the kind of
// server, and asking for it would be another statement.
func onPostgres(query string) string {
	return "SELECT * FROM (" + query + "\n) AS row WHERE pg_catalog.current_setting('crdb_version', true) IS NULL"
}

var errCockroach = fmt.Errorf("%w: the server is CockroachDB, whose advisory locks do nothing", pglock.ErrUnsupported)

// Begin sets a savepoint.
func (t *transaction) Begin(ctx context.Context) (pgx.Tx, error) {
	if _, err := t.rows(ctx, lockdb.Savepoint, nil); err != nil {
		return nil, err
	}
	return &savepoint{t}, nil
}

// rows runs a statement and counts its rows.
func (t *transaction) rows(ctx context.Context, query string, args []any) (n int64, err error) {
	rows, err := t.query(ctx, query, args)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func (t *transaction) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	plain := make([]any, 0, len(args))
	for _, arg := range args {
		switch arg := arg.(type) {
		case pgx.QueryExecMode: // the driver has its own
		case []int16:
			plain = append(plain, array(arg))
		case []int64:
			plain = append(plain, array(arg))
		default:
			plain = append(plain, arg)
		}
	}
	return t.tx.QueryContext(ctx, query, plain...)
}

// array returns numbers as PostgreSQL writes an array, which every driver can send.
func array[N int16 | int64](numbers []N) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(int64(n), 10)
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// row is the one row of a statement.
type row struct {
	rows *sql.Rows
	err  error
}

func (r *row) Scan(dest ...any) (err error) {
	if r.err != nil {
		return r.err
	}
	defer func() { err = errors.Join(err, r.rows.Close()) }()
	if r.rows.Next() {
		return r.rows.Scan(dest...)
	}
	if err := r.rows.Err(); err != nil {
		return err
	}
	return errCockroach
}

// savepoint is what Begin of a transaction returns.
type savepoint struct{ *transaction }

func (s *savepoint) Commit(ctx context.Context) error {
	_, err := s.rows(ctx, lockdb.ReleaseSavepoint, nil)
	return err
}

func (s *savepoint) Rollback(ctx context.Context) error {
	if _, err := s.rows(ctx, lockdb.RollbackToSavepoint, nil); err != nil {
		return err
	}
	return s.Commit(ctx)
}

// The rest of pgx.Tx belongs to the caller, or needs pgx.

var errCaller = errors.New("only the caller may end the transaction")

func (*transaction) Commit(context.Context) error   { return errCaller }
func (*transaction) Rollback(context.Context) error { return errCaller }

func (*transaction) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, needsPgx("queries of several rows")
}

func (*transaction) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, needsPgx("COPY")
}

func (*transaction) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, needsPgx("prepared statements")
}

func (*transaction) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return noBatch{} }

func (*transaction) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

func needsPgx(what string) error {
	return fmt.Errorf("%w: %s in a transaction of database/sql", pglock.ErrUnsupported, what)
}

type noBatch struct{}

func (noBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, needsPgx("batches") }
func (noBatch) Query() (pgx.Rows, error)         { return nil, needsPgx("batches") }
func (noBatch) QueryRow() pgx.Row                { return &row{err: needsPgx("batches")} }
func (noBatch) Close() error                     { return needsPgx("batches") }
func (noBatch) Tx() pgx.Tx                       { return nil }
