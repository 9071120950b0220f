package pglock

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// QueueLockAllTx adds all the locks to the batch b, as one statement with one result. It takes them in the order of
// [LockAllTx], so the two cannot deadlock with each other. The same key twice is harmless; no keys at all are
// [ErrInvalidKey], which fails the batch before anything is sent. [MaxWait] bounds the wait for all of them together.
// Everything else is as with [QueueLockTx].
func QueueLockAllTx(b *pgx.Batch, keys []Key, opts ...TxOption) *pgx.QueuedQuery {
	c, err := newTxConfig(opts)
	if len(keys) == 0 {
		keys, err = []Key{{}}, errors.Join(err, errNoKeys)
	}
	keys = inOrder(keys)
	spaces, numbers := arrays(keys)
	statement, args := lockdb.QueueLockAllTx, []any{c.shared, spaces, numbers, c.allowStandby, c.allowStale}
	switch {
	case c.never():
		statement = lockdb.QueueTryLockAllTx
	case c.bounded:
		statement = lockdb.QueueBoundedLockAllTx
		args = []any{milliseconds(c.maxWait), c.shared, spaces, numbers, c.allowStandby, c.allowStale}
	}
	return c.queueLocks(b, keys, err, statement, args)
}
