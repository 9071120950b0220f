// Package txlock is about locks of transactions: what package pglock shares with package semaphore, which takes such
// locks too.
package txlock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Backend is implemented by the backend whose Lockers take the same locks as transactions do: PostgreSQL's.
type Backend interface {
	// SameServer reports whether tx is on the server, and in the database, that has g, according to that server. The
	// transaction can continue afterwards, whatever the answer. The front end asks only to refuse a call that would wait
	// for itself. So the result must be true only if that is certain; a wrong false costs little.
	SameServer(ctx context.Context, tx pgx.Tx, g driver.Grant) (bool, error)
}
