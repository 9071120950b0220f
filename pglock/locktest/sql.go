package locktest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// OpenDB returns a database whose transactions take their locks on s: those of package sqltx, GuardTx included, and those
// of queries of a package that is generated for database/sql. They exclude, and are excluded by, the locks of s's Lockers
// and of its other transactions, and end with the transaction.
//
// Statements go to inner, which may be a mock; each transaction begins one there. If inner is nil, a statement does nothing
// and has no effect on a row, and one that is asked for rows returns an error. Savepoints that statements set are not
// noticed: a rollback to one keeps the locks.
//
// Close closes the database, and leaves inner open.
func (s *Server) OpenDB(inner *sql.DB) *sql.DB { return sql.OpenDB(connector{s, inner}) }

type connector struct {
	server *Server
	inner  *sql.DB
}

// Connect implements [sqldriver.Connector].
func (c connector) Connect(context.Context) (sqldriver.Conn, error) {
	return &sqlConn{connector: c}, nil
}

// Driver implements [sqldriver.Connector].
func (c connector) Driver() sqldriver.Driver { return noDriver{} }

type noDriver struct{}

// Open implements [sqldriver.Driver].
func (noDriver) Open(string) (sqldriver.Conn, error) {
	return nil, errors.New("locktest: a Server opens its databases itself: use Server.OpenDB")
}

// sqlConn is a connection. database/sql uses it for one call at a time.
type sqlConn struct {
	connector
	tx      *Tx     // nil outside of a transaction
	innerTx *sql.Tx // nil too if inner is
}

var _ interface {
	sqldriver.ConnBeginTx
	sqldriver.QueryerContext
	sqldriver.ExecerContext
	sqldriver.NamedValueChecker
} = (*sqlConn)(nil)

// BeginTx implements [sqldriver.ConnBeginTx].
func (c *sqlConn) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	if c.inner != nil {
		inner, err := c.inner.BeginTx(ctx, &sql.TxOptions{Isolation: sql.IsolationLevel(opts.Isolation), ReadOnly: opts.ReadOnly})
		if err != nil {
			return nil, err
		}
		c.innerTx = inner
	}
	c.tx = c.server.Tx(nil)
	return c, nil
}

// Begin implements [sqldriver.Conn].
func (c *sqlConn) Begin() (sqldriver.Tx, error) {
	return c.BeginTx(context.Background(), sqldriver.TxOptions{})
}

// Commit implements [sqldriver.Tx]. The locks end after what was written can be seen.
func (c *sqlConn) Commit() error {
	err := c.tx.usable()
	if err != nil {
		return errors.Join(fmt.Errorf("the transaction is rolled back: %w", err), c.Rollback())
	}
	tx, inner := c.tx, c.innerTx
	c.tx, c.innerTx = nil, nil
	if inner != nil {
		err = inner.Commit()
	}
	tx.end(err == nil)
	return err
}

// Rollback implements [sqldriver.Tx].
func (c *sqlConn) Rollback() (err error) {
	tx, inner := c.tx, c.innerTx
	c.tx, c.innerTx = nil, nil
	if inner != nil {
		err = inner.Rollback()
	}
	tx.end(false)
	return err
}

// CheckNamedValue implements [sqldriver.NamedValueChecker]: inner decides which values it takes.
func (*sqlConn) CheckNamedValue(*sqldriver.NamedValue) error { return nil }

// reach returns what carries a statement out, or nil. A statement of a lock goes no further.
func (c *sqlConn) reach(ctx context.Context) (carrier, error) {
	if caught := txlock.CaughtOf(ctx); caught != nil {
		if c.tx == nil {
			return nil, &pgconn.PgError{Severity: "ERROR", Code: sqlstate.NoActiveTransaction, Message: "there is no transaction"}
		}
		caught.Tx = c.tx
		return nil, txlock.ErrCaught
	}
	if c.tx != nil {
		if err := c.tx.usable(); err != nil {
			return nil, err
		}
	}
	switch {
	case c.innerTx != nil:
		return c.innerTx, nil
	case c.inner != nil:
		return c.inner, nil
	}
	return nil, nil
}

// carrier is a *sql.DB or a *sql.Tx.
type carrier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ExecContext implements [sqldriver.ExecerContext].
func (c *sqlConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	inner, err := c.reach(ctx)
	if err != nil || inner == nil {
		return sqldriver.RowsAffected(0), err
	}
	return inner.ExecContext(ctx, query, values(args)...)
}

// QueryContext implements [sqldriver.QueryerContext].
func (c *sqlConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	inner, err := c.reach(ctx)
	switch {
	case err != nil:
		return nil, err
	case inner == nil:
		return nil, fmt.Errorf("locktest: %w: this database carries no statements out: give Server.OpenDB one that does, such as a mock",
			driver.ErrUnsupported)
	}
	rows, err := inner.QueryContext(ctx, query, values(args)...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

func values(args []sqldriver.NamedValue) []any {
	plain := make([]any, len(args))
	for i, arg := range args {
		plain[i] = arg.Value
		if arg.Name != "" {
			plain[i] = sql.Named(arg.Name, arg.Value)
		}
	}
	return plain
}

// Prepare implements [sqldriver.Conn]. The statement is sent each time it is executed.
func (c *sqlConn) Prepare(query string) (sqldriver.Stmt, error) { return &sqlStmt{c, query}, nil }

// Close implements [sqldriver.Conn].
func (c *sqlConn) Close() error { return nil }
