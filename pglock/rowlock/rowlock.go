// Package rowlock keeps locks in rows of PostgreSQL, for applications behind a transaction pooler (PgBouncer in
// transaction mode, the pooled address of a hosted PostgreSQL). The Locker is the same as that of package pglock, with
// the same options; only the server keeps the locks differently:
//
//	locker, err := rowlock.New(pool)
//
// It needs the schema pglock (pglock migrate up). Locks in rows do not exclude locks of sessions ([pglock.New]) or of
// pg_advisory_lock, nor these them.
//
// Each process has one row, which it renews three times per lease with one statement, whatever the number of its locks.
// A silent process loses its locks when its lease expires by the server's clock, and learns of it earlier, by its own
// clock. A killed process keeps its locks until then, too. docs/internals/evidence.md has the argument, and
// docs/guarantees.md says what a clock that is set can do.
//
// Every call is one READ COMMITTED transaction, and nothing depends on a session: no setting, prepared statement,
// notification or temporary object. Goroutines that lock and unlock at the same time share a statement and its
// commit. Waiters of different processes are served in the order of their arrival. They poll for their turn: the
// next process has a lock some milliseconds after a short hold, and up to 0.6 seconds after a long one. A call that
// cannot win only reads. A try of a key that the process was refused less than 20 milliseconds ago waits for the rest of
// them.
//
// [pglock.Lock.GuardTx] needs one round trip, works through the pooler, and in transactions of every isolation level
// that can write. A guarded transaction blocks other holders until it ends, even if the lock is lost or unlocked
// before. [pglock.Lock.Fence] needs no statement for the first Lock that a grant of the server gives.
//
// The packages leader, semaphore and schedule work on it as on sessions.
package rowlock

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

// New returns a Locker whose locks are in rows on the server of pool. It uses the pool's configuration only: the
// Locker dials up to four connections of its own, on top of the pool's MaxConns. One of them only renews the lease.
// Names and runs take up to two more. BeforeConnect, TLS and DialFunc are honoured; AfterConnect and
// tracers are not. It does not dial yet; see [pglock.Locker.Ping].
//
// Options for sessions of PostgreSQL (AllowPooler, WithSessions and the like) are errors that match
// [pglock.ErrUnsupported].
func New(pool *pgxpool.Pool, opts ...pglock.Option) (*pglock.Locker, error) {
	if pool == nil {
		return nil, errors.New("rowlock: the pool is nil")
	}
	l, err := pglock.NewWithBackend(newBackend(pool.Config()), opts...)
	if err != nil {
		return nil, fmt.Errorf("rowlock: %w", err)
	}
	return l, nil
}
