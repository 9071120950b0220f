package locktest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// carries returns an error if no statement can return rows.
func (t *Tx) carries() error {
	if err := t.usable(); err != nil {
		return err
	}
	if t.inner == nil {
		return fmt.Errorf("locktest: %w: this Tx carries no statements out: give Server.Tx a pgx.Tx that does, such as a mock",
			driver.ErrUnsupported)
	}
	return nil
}

// Query implements [pgx.Tx].
func (t *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.carries(); err != nil {
		return nil, err
	}
	return t.inner.Query(ctx, sql, args...)
}

// QueryRow implements [pgx.Tx].
func (t *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.carries(); err != nil {
		return nothing{err}
	}
	return t.inner.QueryRow(ctx, sql, args...)
}

// CopyFrom implements [pgx.Tx].
func (t *Tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := t.carries(); err != nil {
		return 0, err
	}
	return t.inner.CopyFrom(ctx, table, columns, rows)
}

// Prepare implements [pgx.Tx].
func (t *Tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.carries(); err != nil {
		return nil, err
	}
	return t.inner.Prepare(ctx, name, sql)
}

// LargeObjects implements [pgx.Tx]. Without a pgx.Tx that carries statements out its result must not be used.
func (t *Tx) LargeObjects() pgx.LargeObjects {
	if t.inner == nil {
		return pgx.LargeObjects{}
	}
	return t.inner.LargeObjects()
}

// nothing is the row and the results of a statement that was not carried out.
type nothing struct{ why error }

// Scan implements [pgx.Row].
func (n nothing) Scan(...any) error { return n.why }

// Exec implements [pgx.BatchResults].
func (n nothing) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, n.why }

// Query implements [pgx.BatchResults].
func (n nothing) Query() (pgx.Rows, error) { return nil, n.why }

// QueryRow implements [pgx.BatchResults].
func (n nothing) QueryRow() pgx.Row { return n }

// Close implements [pgx.BatchResults].
func (n nothing) Close() error { return n.why }

// Tx implements [pgx.BatchResults]: no transaction was begun.
func (n nothing) Tx() pgx.Tx { return nil }
