package pglock

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// QueueTryLockTx adds the lock to the batch b as [QueueLockTx] does, but does not wait for it. If it is held elsewhere, the
// batch and its transaction are aborted with a *[WaitError]. MaxWait is an error here.
func QueueTryLockTx(b *pgx.Batch, key Key, opts ...TxOption) *pgx.QueuedQuery {
	return QueueTryLockAllTx(b, []Key{key}, opts...)
}

// QueueLockAllTx adds all the locks to the batch b, as one statement with one result. It takes them in the order of
// [LockAllTx], so the two cannot deadlock with each other. The same key twice is harmless; no keys at all are
// [ErrInvalidKey], which fails the batch before anything is sent. [MaxWait] bounds the wait for all of them together.
// Everything else is as with [QueueLockTx].
func QueueLockAllTx(b *pgx.Batch, keys []Key, opts ...TxOption) *pgx.QueuedQuery {
	return queueAll(b, keys, true, opts)
}

// QueueTryLockAllTx adds all the locks to the batch b as [QueueLockAllTx] does, but does not wait: a lock that is held
// elsewhere aborts the batch.
func QueueTryLockAllTx(b *pgx.Batch, keys []Key, opts ...TxOption) *pgx.QueuedQuery {
	return queueAll(b, keys, false, opts)
}

func queueAll(b *pgx.Batch, keys []Key, wait bool, opts []TxOption) *pgx.QueuedQuery {
	c, err := newTxConfig(opts)
	if err == nil {
		_, err = c.wait(!wait)
	}
	if len(keys) == 0 {
		keys, err = []Key{{}}, errors.Join(err, errNoKeys)
	}
	keys = inOrder(keys)
	spaces, numbers := arrays(keys)
	statement, args := lockdb.QueueLockAllTx, []any{c.shared, spaces, numbers, c.allowStandby, c.allowStale}
	switch {
	case !wait:
		statement = lockdb.QueueTryLockAllTx
	case c.bounded:
		statement = lockdb.QueueBoundedLockAllTx
		args = []any{milliseconds(c.maxWait), c.shared, spaces, numbers, c.allowStandby, c.allowStale}
	}
	return c.queueLocks(b, keys, !wait, err, statement, args)
}
