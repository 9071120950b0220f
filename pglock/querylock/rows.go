package querylock

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are the rows of a query that is the last of its batch, which ends with them.
type rows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error
}

// Close implements [pgx.Rows].
func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	r.err = closeAfter(r.results, r.Rows.Err())
}

// Err implements [pgx.Rows].
func (r *rows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}

// Next implements [pgx.Rows].
func (r *rows) Next() bool {
	if r.closed {
		return false
	}
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan implements [pgx.Rows]. Rows that cannot be scanned are closed, as pgx closes its own.
func (r *rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

// Values implements [pgx.Rows].
func (r *rows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// row is the row of a query that is the last of its batch.
type row struct {
	pgx.Row
	results pgx.BatchResults
}

// Scan implements [pgx.Row].
func (r *row) Scan(dest ...any) error {
	return closeAfter(r.results, r.Row.Scan(dest...))
}

// failedRows are the rows, or the row, of a query that did not run.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (r failedRows) Err() error                                 { return r.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return pgtype.NewMap() }
