// Package rowlock keeps locks in rows of PostgreSQL, for applications that reach their server only through a pooler of
// transactions (PgBouncer in transaction mode, the pooled address of a hosted PostgreSQL). The Locker is the same as that
// of package pglock, with the same options; only the server keeps the locks differently:
//
//	locker, err := rowlock.New(pool)
//
// It needs the schema pglock (pglock migrate up). Locks in rows and locks of sessions (pglock.New) do not exclude each
// other, nor does pg_advisory_lock exclude either of the former.
//
// Each process has one row, which it renews three times per lease with one statement, whatever the number of its locks. A
// process that falls silent loses its locks when the server's clock says that its lease is over, and knows that from its
// own clock before. The locks of a process that is killed last until then too. docs/internals/evidence.md has the argument,
// and docs/guarantees.md says what a clock that is set can do.
//
// Every call is one READ COMMITTED transaction, and nothing depends on a session: no setting, prepared statement,
// notification or temporary object. Goroutines that lock and unlock at the same time share a statement and its commit.
// Waiters of different processes are served in the order of their arrival; they ask whether it is their turn, so the next
// process has a lock some milliseconds after one that was held for a short time, and up to 0.6 seconds after one that was
// held for long. A call that cannot win only reads.
//
// [pglock.Lock.GuardTx] needs one round trip, works through the pooler, and in transactions of every isolation level that
// can write. A transaction that has the guard keeps other holders from the lock until it ends, even if the lock is
// lost or unlocked before. [pglock.Lock.Fence] needs no statement for the first Lock that a grant of the server gives.
//
// The packages leader, semaphore and schedule work on it as on sessions.
package rowlock

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

// New returns a Locker whose locks are in rows on the server of pool. It uses the pool's configuration only: the Locker
// dials up to four connections of its own, on top of the pool's MaxConns, of which one does nothing but renew the
// leases, and a fifth only if package schedule records runs. BeforeConnect, TLS and DialFunc are honoured; AfterConnect
// and tracers are not. It does not dial yet; see [pglock.Locker.Ping].
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
