// Package records has what the primitives that keep records in schema pglock share: the check of the schema's owner, and
// the texts of errors.
package records

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
)

// Unavailable explains the error of a statement in its own transaction.
func Unavailable(ctx context.Context, err error) error {
	if errors.Is(err, trust.ErrUnknownRole) {
		return err
	}
	return sqlstate.ExplainOwn(sqlstate.EndedBy(ctx, err))
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
