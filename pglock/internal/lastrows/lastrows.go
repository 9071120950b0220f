// Package lastrows has the results of a statement that is the last of its batch, which ends with them: its error, such as
// that of a commit, is theirs.
package lastrows

import (
	"cmp"

	"github.com/jackc/pgx/v5"
)

// Query returns the rows of the last statement.
func Query(results pgx.BatchResults) (pgx.Rows, error) {
	read, err := results.Query()
	if err != nil {
		_ = results.Close() // it has the same error
		return nil, err
	}
	return &rows{Rows: read, results: results}, nil
}

type rows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error
}

// Close implements [pgx.Rows].
func (r *rows) Close() {
	if !r.closed {
		r.closed = true
		r.Rows.Close()
		r.err = cmp.Or(r.Rows.Err(), r.results.Close())
	}
}

// Err implements [pgx.Rows].
func (r *rows) Err() error { return cmp.Or(r.err, r.Rows.Err()) }

// Next implements [pgx.Rows].
func (r *rows) Next() bool {
	if !r.closed && r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Row is the row of the last statement.
type Row struct{ Results pgx.BatchResults }

// Scan implements [pgx.Row].
func (r Row) Scan(dest ...any) error {
	err := r.Results.QueryRow().Scan(dest...)
	return cmp.Or(err, r.Results.Close())
}
