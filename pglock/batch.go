package pglock

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/internal/refusal"
)

// QueueLockTx adds the lock to the batch b, in which it has exactly one result. It needs no extra round trip, and
// statements queued behind it are only executed if the lock was granted. With [pgx.Batch.BeginTx], begin, lock and work
// are one round trip. (In execution modes that prepare or describe statements, pgx needs one more for those that are new
// to the connection.) The lock lasts until the transaction ends; a batch sent outside a transaction forms its own.
//
// Options are those of [LockTx], with one difference: any error aborts the whole batch, and its transaction with it, so
// after [MaxWait] or a refusal only a rollback is possible. A key or option that is invalid, and a server that cannot
// lock at all, fail the batch before anything is sent.
//
// MaxWait(0) does not wait: a lock that is held elsewhere aborts the batch with a *[WaitError].
//
// Without MaxWait the end of the batch's context ends the wait, and pgx then closes the connection: unlike LockTx it
// derives no bound from a deadline, and does not check whether ctx descends from a Lock of the key ([ErrSelfDeadlock]).
// Both need an answer from the server before the lock is asked for: a round trip, which batches exist to save. The wait
// takes no part in the search for deadlocks, within the process or between processes, except PostgreSQL's own. The log
// does not show it: the server sends its answers to a batch together, so the work behind the lock would look like a
// wait. Give MaxWait where a wait is possible: then the batch fails, and the connection stays open.
//
// Results read by [pgx.BatchResults.Close] have the errors of this package. Their WaitErrors have neither the time
// of the wait nor the holders. If you read the results by hand, or set another function on the returned query, map
// their errors with [TxError]. Do so too with errors that pgx returns for the whole batch, as when the connection
// has ended.
func QueueLockTx(b *pgx.Batch, key Key, opts ...TxOption) *pgx.QueuedQuery {
	return QueueLockAllTx(b, []Key{key}, opts...)
}

// queuedLock is a lock, or several of one statement, in a batch, which is sent once.
type queuedLock struct {
	keys   []Key           // at least one
	err    error           // keeps the batch from being sent
	ctx    context.Context // the batch's own, which its results are read with too; known when it is sent
	config txConfig        // for its Observer
}

// RewriteQuery implements [pgx.QueryRewriter], which pgx calls before it sends the batch. It rewrites nothing.
func (l *queuedLock) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	l.ctx = ctx
	if l.err != nil {
		return "", nil, l.err
	}
	if err := refusal.CheckServer(conn); err != nil {
		return "", nil, failed("lock", l.keys[0], len(l.keys)-1, err)
	}
	return sql, args, nil
}

func (l *queuedLock) readResult(results pgx.BatchResults) error {
	_, err := results.Exec()
	if l.config.bounded && !l.config.never() && sqlstate.Refusal(err).Code == sqlstate.LockNotAvailable {
		err = &WaitError{Err: maxWaitPassed{err}} // lock_timeout was set to it
	}
	err = newTxRequest(false, l.keys...).result(l.ctx, txGranted, err)
	l.config.observe(l.ctx, l.keys, l.config.never(), 0, err)
	return err
}

// maxWaitPassed is the server's error after MaxWait in a batch, with a clearer text.
type maxWaitPassed struct{ error }

func (maxWaitPassed) Error() string   { return "MaxWait has passed" }
func (e maxWaitPassed) Unwrap() error { return e.error }

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
	if err == nil {
		if err = checkKeys(keys); err != nil {
			err = failed("lock", keys[0], len(keys)-1, err)
		}
	}
	lock := &queuedLock{keys: keys, err: err, ctx: context.Background(), config: c}
	statement, args := c.queuedStatement(keys)
	query := b.Queue(statement, append([]any{lock}, args...)...)
	query.Fn = lock.readResult
	return query
}
