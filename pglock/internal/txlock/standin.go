// Package txlock is about locks of transactions: what package pglock shares with package semaphore, which takes such
// locks too, and with package locktest, which stands in for PostgreSQL.
package txlock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Backend is implemented by backends whose Lockers take the same locks as transactions do: PostgreSQL's, and that of
// package locktest. They alone accept the options that are for PostgreSQL only.
type Backend interface {
	// SameServer reports whether tx is on the server, and in the database, that has g, according to that server. The
	// transaction can continue afterwards, whatever the answer. The front end asks only to refuse a call that would wait
	// for itself. So the result must be true only if that is certain; a wrong false costs little.
	SameServer(ctx context.Context, tx pgx.Tx, g driver.Grant) (bool, error)
}

// Tx is implemented by transactions that take locks themselves and need no statements for it: those of package locktest.
type Tx interface {
	pgx.Tx
	// LockTx takes all of r.Keys or none of them for the rest of the transaction. With r.Wait it waits until ctx ends, and
	// then returns its cause; without, it answers at once, with [driver.ErrNotAcquired] when another holder is in the way.
	LockTx(ctx context.Context, r Request) error
	// HoldersTx returns the present holders of k.
	HoldersTx(ctx context.Context, k driver.Key) ([]driver.Holder, error)
	// Abort makes the transaction fail: after that it can only be rolled back.
	Abort(why error)
}

// Records is implemented by a [Tx] that keeps the records of package once itself. Its methods are those of the statements
// of the same names.
type Records interface {
	Once(ctx context.Context, p lockdb.OnceParams) (lockdb.OnceRow, error)
	OnceRecord(ctx context.Context, p lockdb.OnceRecordParams) error
}

// QueuedLocks is implemented by the first argument of a statement in a batch that takes locks, for a [Tx].
type QueuedLocks interface {
	pgx.QueryRewriter
	// Requested returns what the statement asks for. A wait that is bounded ends after maxWait, if its context does not
	// end it.
	Requested() (r Request, maxWait time.Duration, bounded bool)
}

// QueuedOnce is implemented by the first argument of a statement in a batch that is one of package once.
type QueuedOnce interface {
	pgx.QueryRewriter
	// Asked returns what the statement asks, and whether it waits.
	Asked() (p lockdb.OnceParams, wait bool)
}

// Request says what a [Tx] is asked to lock.
type Request struct {
	Keys         []driver.Key // as in [driver.Request]
	Shared, Wait bool
}
