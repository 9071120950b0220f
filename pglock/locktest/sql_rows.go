package locktest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
)

// sqlRows are rows of another database.
type sqlRows struct{ rows *sql.Rows }

// Columns implements [sqldriver.Rows].
func (r sqlRows) Columns() []string {
	columns, _ := r.rows.Columns() // its only error is that the rows are closed
	return columns
}

// Next implements [sqldriver.Rows].
func (r sqlRows) Next(dest []sqldriver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	found, pointers := make([]any, len(dest)), make([]any, len(dest))
	for i := range found {
		pointers[i] = &found[i]
	}
	err := r.rows.Scan(pointers...)
	for i, value := range found {
		dest[i] = value
	}
	return err
}

// Close implements [sqldriver.Rows].
func (r sqlRows) Close() error { return r.rows.Close() }

// sqlStmt is a prepared statement.
type sqlStmt struct {
	conn  *sqlConn
	query string
}

var _ interface {
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
} = (*sqlStmt)(nil)

// ExecContext implements [sqldriver.StmtExecContext].
func (s *sqlStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

// QueryContext implements [sqldriver.StmtQueryContext].
func (s *sqlStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// NumInput implements [sqldriver.Stmt]: it is not known.
func (*sqlStmt) NumInput() int { return -1 }

// Close implements [sqldriver.Stmt].
func (*sqlStmt) Close() error { return nil }

var errContext = errors.New("locktest: statements need a context")

// Exec implements [sqldriver.Stmt]. database/sql calls ExecContext.
func (*sqlStmt) Exec([]sqldriver.Value) (sqldriver.Result, error) { return nil, errContext }

// Query implements [sqldriver.Stmt]. database/sql calls QueryContext.
func (*sqlStmt) Query([]sqldriver.Value) (sqldriver.Rows, error) { return nil, errContext }
