// Package sqltx takes pglock's locks in transactions of database/sql, and of what is built on it: sqlx, bun, GORM, ent.
// It works with every driver for PostgreSQL whose errors have a method SQLState, as those of pgx and lib/pq do.
//
//	err := sqltx.LockTx(ctx, tx, pglock.NewKey("invoice:42"), pglock.MaxWait(2*time.Second))
//
// The functions do what those of package pglock of the same names do for a pgx.Tx, with the same options and errors.
// What to pass for the transaction:
//
//	database/sql  *sql.Tx
//	sqlx          *sqlx.Tx
//	bun           bun.Tx
//	GORM          tx.Statement.ConnPool
//	ent           *ent.Tx, generated with the feature sql/execquery
//
// A transaction lock that is taken outside a transaction would be freed at once. So for anything that neither is nor
// embeds a *sql.Tx, two more round trips first ask the server whether it is in a transaction. A database handle, or
// a GORM without Begin, is refused with [ErrNoTransaction] before anything is locked.
package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Tx is a transaction: a *sql.Tx, or anything else with its QueryContext.
type Tx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ErrNoTransaction says that what was passed is not a transaction, so that its locks would be free at once. Nothing was
// locked.
var ErrNoTransaction = errors.New("not in a transaction")

// LockTx takes the lock for the rest of the transaction, as [pglock.LockTx] does: it waits until the lock is granted,
// ctx ends or is about to reach its deadline, or [pglock.MaxWait] has passed; commit and rollback free it. A free lock
// takes one statement. A driver that prepares statements may need two round trips for it the first time on a
// connection.
//
// With MaxWait, or below a deadline, a lock that is not free takes three more, for a savepoint, or eight when the bound
// has passed, which find out who holds the lock; the transaction can continue then, and lock_timeout is what it was
// before. When ctx is cancelled during the wait, pgx and lib/pq close the connection, and the transaction is over.
//
// REPEATABLE READ and SERIALIZABLE transactions are refused with [pglock.ErrStaleSnapshot], hot standbys with
// [pglock.ErrStandby] and CockroachDB with [pglock.ErrUnsupported], before anything is locked.
func LockTx(ctx context.Context, tx Tx, key pglock.Key, opts ...pglock.TxOption) error {
	on, err := enter(ctx, tx)
	if err != nil {
		return fmt.Errorf("pglock: lock %s: %w", shorttext.Quote(key.String()), err)
	}
	return pglock.LockTx(ctx, on, key, opts...)
}

// TryLockTx takes the lock as [LockTx] does if that needs no waiting; otherwise it returns a *[pglock.WaitError], which
// matches [pglock.ErrNotAcquired], and the transaction can continue. MaxWait is an error here.
func TryLockTx(ctx context.Context, tx Tx, key pglock.Key, opts ...pglock.TxOption) error {
	on, err := enter(ctx, tx)
	if err != nil {
		return fmt.Errorf("pglock: lock %s: %w", shorttext.Quote(key.String()), err)
	}
	return pglock.TryLockTx(ctx, on, key, opts...)
}

// LockAllTx takes all the locks for the rest of the transaction, or none, in one statement and in the fixed order of
// [pglock.LockAllTx]. Without keys, the error matches [pglock.ErrInvalidKey].
func LockAllTx(ctx context.Context, tx Tx, keys []pglock.Key, opts ...pglock.TxOption) error {
	on, err := enter(ctx, tx)
	if err != nil {
		return fmt.Errorf("pglock: lock %d keys: %w", len(keys), err)
	}
	return pglock.LockAllTx(ctx, on, keys, opts...)
}

// GuardTx ties tx to a lock of a Locker, so that what tx writes cannot be stale, as [pglock.Lock.GuardTx] does. If the
// lock has been lost the error matches [pglock.ErrLost], and tx cannot commit. After any error but ErrNoTransaction and
// [pglock.ErrStaleSnapshot] roll tx back.
//
// Call it first in every transaction that writes what the lock protects, before the first savepoint (GORM and bun make
// savepoints of nested transactions): a rollback to an earlier savepoint ends the guard.
func GuardTx(ctx context.Context, lock *pglock.Lock, tx Tx) error {
	if lock == nil {
		return errors.New("pglock: guard a transaction: the lock is nil")
	}
	on, err := enter(ctx, tx)
	if err != nil {
		return fmt.Errorf("pglock: guard a transaction by %s: %w", shorttext.Quote(lock.Key().String()), err)
	}
	return lock.GuardTx(ctx, on)
}

// TxContext returns a context for work in tx, as [pglock.TxContext] does.
func TxContext(ctx context.Context, tx Tx) (context.Context, error) {
	on, err := enter(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("pglock: tie a context to a transaction: %w", err)
	}
	return pglock.TxContext(ctx, on)
}
