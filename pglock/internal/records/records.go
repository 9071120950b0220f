// Package records has what the primitives that keep records in schema pglock share: the check of the schema's owner, and
// the texts of errors.
package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Explain says what to do about an error of a statement, and makes it match the sentinels of package pglock. An error
// that is not the server's comes back unchanged.
func Explain(err error) error {
	if errors.Is(err, driver.ErrSchemaMissing) { // found by the check of its owner
		return err
	}
	switch sqlstate.Of(err) {
	case sqlstate.UndefinedFunction, sqlstate.InvalidSchemaName:
		return fmt.Errorf("%w, or is older than this needs (run: pglock migrate up): %w", driver.ErrSchemaMissing, err)
	case sqlstate.InsufficientPrivilege:
		return fmt.Errorf("%w: %w (the rights that a role needs of schema pglock are at the end of what "+
			"\"pglock migrate print\" writes)", driver.ErrDenied, err)
	case sqlstate.ReadOnlyTransaction:
		return fmt.Errorf("%w, or the transaction is read-only: %w", driver.ErrStandby, err)
	}
	return err
}

// Unavailable is [Explain] for a statement in its own transaction: an error that is not the server's comes from the
// connection, unless ctx has ended.
func Unavailable(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUntrusted), errors.Is(err, trust.ErrUnknownRole):
		return err
	case sqlstate.Denied(err) && errors.As(err, new(*pgconn.ConnectError)):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case sqlstate.Of(err) != "" && !sqlstate.In(err, sqlstate.ClassShutdown, sqlstate.ClassInsufficientResources):
		return Explain(err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// Again runs a statement in its own transaction, and repeats it while it fails because of other transactions; a statement
// that fails so has done nothing. That happens above READ COMMITTED, at an isolation level that the role or the database
// may have as its default.
func Again(ctx context.Context, statement func() error) error {
	for {
		err := statement()
		if sqlstate.Of(err) != sqlstate.SerializationFailure || ctx.Err() != nil {
			return err
		}
	}
}

// Interval returns d as an interval of PostgreSQL, in microseconds.
func Interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}
