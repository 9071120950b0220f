package pglock

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// LockTx takes the lock for the rest of the transaction tx, with pg_advisory_xact_lock; commit and rollback free it.
// It waits until it is granted, ctx ends, or [MaxWait] has passed. A free lock takes one round trip, whatever the
// connection's query execution mode, and works through transaction poolers. (One that is not free takes three more with
// MaxWait, which waits in a savepoint, and when that has passed three more to find out the holders.)
//
// When ctx has a deadline, the wait ends before it, by a tenth of the remaining time (50 ms to a second, at most
// half of it), in a savepoint as with MaxWait. The error is then a *[WaitError] that names the holders and matches
// [context.DeadlineExceeded], and the transaction can continue: there is time left for a rollback, or an answer.
//
// Before anything is locked, it refuses a transaction that would read older data than the lock protects
// ([ErrStaleSnapshot]) and a hot standby ([ErrStandby]). After a refusal, and after MaxWait, the transaction can continue.
//
// Three other ends of a wait abort the transaction. If ctx is cancelled, the error is a *[WaitError] that matches the
// context's error, and pgx closes the connection unless it is configured otherwise. If the session's own lock_timeout
// ends the wait, which can happen only if ctx has no deadline, the error is a *[WaitError]. If PostgreSQL resolves a
// deadlock against this transaction, the error is PostgreSQL's (40P01).
//
// When pgx closes the connection it asks the server to cancel the statement. A server so slow that it has not begun
// with the statement ignores that. Its session keeps its locks and waits on: until this one is granted, or
// client_connection_check_interval (off by default) makes it notice that its client is gone.
//
// The wait keeps the connection. Once waiting transactions occupy the whole pool, no other query gets a connection.
// For contended keys use [TryLockTx], or a short MaxWait, or take the lock with [Locker.Lock] before the
// transaction begins and write under [Lock.GuardTx].
//
// The lock is PostgreSQL's own: reentrant within its transaction, freed early by ROLLBACK TO a savepoint set before
// it, and unaware of Lockers. A goroutine that holds a Lock of a key and calls LockTx of the same key waits for
// itself. If ctx descends from the Context of a Lock on the same server and database, that is [ErrSelfDeadlock],
// and deadlocks are detected as [Locker.Lock] describes. Then a lock that is not free takes two more round trips. In a
// deadlock with other processes, the victim's transaction is aborted, unless the wait was bounded, by MaxWait or a
// deadline: then it can continue.
//
// LockTx trusts the server. Two transactions both get the lock if the server's lock functions do nothing, or if a proxy
// sends the two to different servers. Only a Locker finds that out.
func LockTx(ctx context.Context, tx pgx.Tx, key Key, opts ...TxOption) error {
	return lockTx(ctx, tx, key, false, nil, opts)
}

// TryLockTx takes the lock as [LockTx] does if that needs no waiting; otherwise it returns a *[WaitError], which
// matches [ErrNotAcquired], and the transaction can continue. It is always one round trip. MaxWait is an error here.
func TryLockTx(ctx context.Context, tx pgx.Tx, key Key, opts ...TxOption) error {
	return lockTx(ctx, tx, key, true, nil, opts)
}

// lockTx also identifies the transaction, if tie is not nil.
func lockTx(ctx context.Context, tx pgx.Tx, key Key, try bool, tie *placedTx, opts []TxOption) error {
	c, err := newTxConfig(opts)
	if err != nil {
		return err
	}
	c.tie = tie
	began := driver.Now()
	err = c.lockTx(ctx, tx, key, try)
	c.observe(ctx, []Key{key}, try, began, err)
	return err
}

func (c txConfig) lockTx(ctx context.Context, tx pgx.Tx, key Key, try bool) error {
	wait, err := c.wait(try)
	if err != nil {
		return err
	}
	if err := checkTx(tx, key); err != nil {
		return failed("lock", key, 0, err)
	}
	if wait {
		c = c.below(ctx)
		defer watchTx(c.logger, defaultWarnAfter, key)()
	}
	// A lock that is free costs less without a bound and without a look for deadlocks, so where these are needed it is
	// tried first.
	keys := []Key{key}
	if !wait || c.bounded || c.tie != nil || ancestors(ctx) != nil {
		if outcome, err := c.askTx(ctx, tx, keys, false); outcome != txHeld || !wait {
			return err
		}
	}
	return c.awaitTx(ctx, tx, keys)
}

// awaitTx asks for the locks, and waits for them.
func (c txConfig) awaitTx(ctx context.Context, tx pgx.Tx, keys []Key) error {
	if c.bounded {
		return boundedLockTx(ctx, tx, keys, c)
	}
	return waitTx(ctx, tx, keys, c.shared, func(ctx context.Context) error {
		_, err := c.askTx(ctx, tx, keys, true)
		return err
	})
}

// askTx asks for the locks once. The outcome is txHeld also if the error says so.
func (c txConfig) askTx(ctx context.Context, tx pgx.Tx, keys []Key, waits bool) (outcome txOutcome, err error) {
	asked := newTxRequest(waits, keys...)
	statement, args := c.lockStatement(keys, waits)
	into := []any{&outcome}
	if c.tie != nil {
		statement, args = identified(statement, args)
		into = append(into, &c.tie.tx.PID, &c.tie.tx.Began, &c.tie.server, nil)
	}
	err = inOneRoundTrip(tx).QueryRow(ctx, statement, args...).Scan(into...)
	return outcome, asked.result(ctx, outcome, err)
}

// LockAllTx takes all the locks for the rest of the transaction, or none of them, as [LockTx] does, in one statement
// and one round trip (with MaxWait, or under a deadline, two more for a savepoint). All calls, in every process, take
// keys in one fixed order, so two calls for the same keys cannot deadlock with each other. Several calls in one
// transaction can, and so can its other locks. The same key twice is harmless; no keys at all are [ErrInvalidKey].
// [MaxWait] bounds the wait for all of them together. An error of the server, other than a refusal or MaxWait, aborts
// the transaction; the rollback frees what was taken.
func LockAllTx(ctx context.Context, tx pgx.Tx, keys []Key, opts ...TxOption) error {
	c, err := newTxConfig(opts)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errNoKeys
	}
	began := driver.Now()
	err = c.lockAllTx(ctx, tx, keys)
	c.observe(ctx, keys, false, began, err)
	return err
}

func (c txConfig) lockAllTx(ctx context.Context, tx pgx.Tx, keys []Key) error {
	if err := checkTx(tx, keys...); err != nil {
		return failed("lock", keys[0], len(keys)-1, err)
	}
	keys = inOrder(keys)
	defer watchTx(c.logger, defaultWarnAfter, keys[0])()
	return c.below(ctx).awaitTx(ctx, tx, keys)
}

// checkTx returns an error for what can be refused without asking the server.
func checkTx(tx pgx.Tx, keys ...Key) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	if tx == nil {
		return errors.New("the transaction is nil")
	}
	return refusal.CheckServer(tx.Conn())
}

// checkKeys refuses invalid keys, and says which of several it is.
func checkKeys(keys []Key) error {
	for i, key := range keys {
		err := key.check()
		if err != nil && len(keys) > 1 {
			return fmt.Errorf("key %d of %d: %w", i+1, len(keys), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
