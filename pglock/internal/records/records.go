// Package records has what the primitives that keep records in schema pglock share: the check of the schema's owner, and
// the texts of errors.
package records

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
)

// Explain explains the error of a statement in its own transaction.
func Explain(ctx context.Context, err error) error {
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

// Delete repeats a statement, in transactions of its own, that deletes at most so many old rows, until it finds no more.
func Delete(ctx context.Context, statement func(most int32) (deleted int64, err error)) error {
	const most = 1000
	for n := int64(most); n == most; {
		err := Again(ctx, func() (err error) {
			n, err = statement(most)
			return err
		})
		if err != nil {
			return Explain(ctx, err)
		}
	}
	return nil
}

// Interval returns d as an interval of PostgreSQL, in microseconds.
func Interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// CheckText refuses a text that PostgreSQL or one of its indexes cannot store, or that has more than most bytes.
func CheckText(what, text string, most int) error {
	switch {
	case text == "":
		return fmt.Errorf("the %s is empty", what)
	case len(text) > most:
		return fmt.Errorf("the %s has %d bytes, and at most %d fit (use a hash instead)", what, len(text), most)
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		return fmt.Errorf("the %s %s is not valid UTF-8, or contains NUL", what, shorttext.Quote(text))
	}
	return nil
}
