package txlock

import (
	"context"
	"errors"
)

// Caught is where the driver of package locktest puts the transaction of its own behind a *sql.Tx, which shows nothing of
// its driver: it finds a Caught in the context of a statement, and carries the statement out no further ([ErrCaught]).
// Drivers of a server do not look for one, so to find out costs no statement.
type Caught struct{ Tx Tx }

// ErrCaught is the error of a statement whose context has a [Caught].
var ErrCaught = errors.New("the transaction is one of package locktest, which carries out no statements of locks")

type caughtKey struct{}

// Catch returns a context by which a statement finds c.
func Catch(ctx context.Context, c *Caught) context.Context {
	return context.WithValue(ctx, caughtKey{}, c)
}

// CaughtOf returns the Caught of a statement's context, or nil.
func CaughtOf(ctx context.Context) *Caught {
	c, _ := ctx.Value(caughtKey{}).(*Caught)
	return c
}
