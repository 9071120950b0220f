// Package records is what the primitives that keep records in schema pglock have in common: how they send statements,
// and what they say of the errors.
package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// OneRoundTrip returns queries that need no preparation: the modes that prepare or describe a statement spend a round
// trip on it when a connection sees it first, and named prepared statements fail behind transaction poolers that do not
// track them.
func OneRoundTrip(db lockdb.DBTX) *lockdb.Queries { return lockdb.New(oneRoundTrip{db}) }

type oneRoundTrip struct{ db lockdb.DBTX }

func (o oneRoundTrip) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return o.db.Exec(ctx, sql, o.with(args)...)
}

func (o oneRoundTrip) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return o.db.Query(ctx, sql, o.with(args)...)
}

func (o oneRoundTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return o.db.QueryRow(ctx, sql, o.with(args)...)
}

func (o oneRoundTrip) with(args []any) []any {
	mode := pgx.QueryExecModeExec
	if simple(o.db) {
		mode = pgx.QueryExecModeSimpleProtocol // the caller's proxy may know no other protocol
	}
	return append([]any{mode}, args...)
}

// simple reports whether db is configured to speak the simple protocol only.
func simple(db any) bool {
	var config *pgx.ConnConfig
	switch db := db.(type) {
	case interface{ Conn() *pgx.Conn }:
		if conn := db.Conn(); conn != nil {
			config = conn.Config()
		}
	case interface{ Config() *pgx.ConnConfig }:
		config = db.Config()
	}
	return config != nil && config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
}

// Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	undefinedFunction     = "42883"
	invalidSchemaName     = "3F000"
	insufficientPrivilege = "42501"
	readOnlyTransaction   = "25006"
)

// Explain says what to do about an error of a statement, and makes it match the sentinels of package pglock. An error
// that is not the server's comes back unchanged.
func Explain(err error) error {
	switch code := ServerError(err).Code; code {
	case undefinedFunction, invalidSchemaName:
		return fmt.Errorf("%w, or is older than this needs (run: pglock migrate up): %w", driver.ErrSchemaMissing, err)
	case insufficientPrivilege:
		return fmt.Errorf("%w (the rights that a role needs of schema pglock are at the end of what "+
			"\"pglock migrate print\" writes)", err)
	case readOnlyTransaction:
		return fmt.Errorf("%w, or the transaction is read-only: %w", driver.ErrStandby, err)
	}
	return err
}

// Unavailable is [Explain] for a statement in a transaction of its own: an error that is not the server's is one of the
// connection, unless ctx has ended.
func Unavailable(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUntrusted), errors.Is(err, trust.ErrUnknownRole):
		return err
	case ServerError(err).Code != "" && !shutsDown(ServerError(err).Code):
		return Explain(err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// shutsDown reports whether the code says that the server, and not the statement, is the problem: class 57P is its
// shutdown and start, 53 its lack of connections or memory.
func shutsDown(code string) bool {
	return len(code) == 5 && (code[:3] == "57P" || code[:2] == "53")
}

// ServerError is the server's part of err; zero when it has none.
func ServerError(err error) pgconn.PgError {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return *server
	}
	return pgconn.PgError{}
}

// Interval is d as PostgreSQL takes it, in microseconds.
func Interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}
