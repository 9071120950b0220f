package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// SendBatch implements [pgx.Tx]. A batch without statements of this toolkit goes on as it is. Of another, each statement is
// carried out when its result is read: those of this toolkit here, and the others by Exec, Query or QueryRow, according to
// how the result is read.
func (t *Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.usable(); err != nil {
		return nothing{err}
	}
	if t.inner != nil && !slices.ContainsFunc(b.QueuedQueries, isOwn) {
		return t.inner.SendBatch(ctx, b)
	}
	for _, query := range b.QueuedQueries {
		if err := rewrite(ctx, query); err != nil {
			return nothing{err}
		}
	}
	return &results{ctx: ctx, tx: t, queue: slices.Clone(b.QueuedQueries)}
}

// rewrite lets a statement refuse its batch.
func rewrite(ctx context.Context, query *pgx.QueuedQuery) (err error) {
	if len(query.Arguments) == 0 {
		return nil
	}
	switch first := query.Arguments[0].(type) {
	case txlock.QueuedLocks:
		_, _, err = first.RewriteQuery(ctx, nil, query.SQL, query.Arguments[1:])
	case txlock.QueuedOnce:
		_, _, err = first.RewriteQuery(ctx, nil, query.SQL, query.Arguments[1:])
	}
	return err
}

// isOwn reports whether a statement is of this toolkit.
func isOwn(query *pgx.QueuedQuery) bool {
	if isSavepoint(query.SQL) {
		return true
	}
	if len(query.Arguments) == 0 {
		return false
	}
	switch query.Arguments[0].(type) {
	case txlock.QueuedLocks, txlock.QueuedOnce, *records.Look:
		return true
	}
	return false
}

// carryOut carries out a statement of this toolkit. An error aborts the transaction.
func (t *Tx) carryOut(ctx context.Context, query *pgx.QueuedQuery) (err error) {
	if isSavepoint(query.SQL) {
		return t.savepoint(query.SQL)
	}
	switch first := query.Arguments[0].(type) {
	case txlock.QueuedLocks:
		err = t.lockQueued(ctx, first)
	case txlock.QueuedOnce:
		err = t.onceQueued(ctx, first)
	default: // the schema's owner is trusted
		return t.usable()
	}
	if err != nil {
		t.Abort(err)
	}
	return err
}

var errMaxWait = errors.New("MaxWait has passed")

// lockQueued takes the locks of a statement. Refusals are the server's errors.
func (t *Tx) lockQueued(ctx context.Context, q txlock.QueuedLocks) error {
	r, maxWait, bounded := q.Requested()
	wait := ctx
	if r.Wait && bounded {
		var cancel func()
		wait, cancel = context.WithTimeoutCause(ctx, maxWait, errMaxWait)
		defer cancel()
	}
	err := t.LockTx(wait, r)
	switch {
	case errors.Is(err, errMaxWait):
		return &pgconn.PgError{Severity: "ERROR", Code: sqlstate.LockNotAvailable, Message: "canceling statement due to lock timeout"}
	case errors.Is(err, driver.ErrNotAcquired):
		return &pgconn.PgError{Severity: "ERROR", Code: undefinedObject,
			Message: fmt.Sprintf("unrecognized configuration parameter \"pglock_held_%d\"", t.firstHeld(r))}
	}
	return err
}

// undefinedObject is the SQLSTATE with which the statement of a try refuses.
const undefinedObject = "42704"

// firstHeld returns the number, from 1, of the first key that is not free for t.
func (t *Tx) firstHeld(r txlock.Request) int {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for i, key := range r.Keys {
		one := &grant{request: driver.Request{Keys: []driver.Key{key}, Shared: r.Shared}, tx: t.root()}
		if slices.ContainsFunc(slices.Concat(t.server.granted, t.server.waiting), one.excludes) {
			return i + 1
		}
	}
	return 1 // it has become free meanwhile
}

const backToSavepoint = lockdb.RollbackToSavepoint + ";" + lockdb.ReleaseSavepoint

func isSavepoint(sql string) bool {
	return slices.Contains([]string{lockdb.Savepoint, lockdb.ReleaseSavepoint, lockdb.RollbackToSavepoint, backToSavepoint}, sql)
}

// savepoint sets or releases a savepoint of the locks of a query, or goes back to it, even if the transaction is aborted.
func (t *Tx) savepoint(sql string) error {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(t.marks) - 1
	switch {
	case t.closed:
		return pgx.ErrTxClosed
	case sql == lockdb.Savepoint && t.aborted == nil:
		t.marks = append(t.marks, len(t.held))
		return nil
	case t.aborted != nil && (sql == lockdb.Savepoint || sql == lockdb.ReleaseSavepoint):
		return abortedBy(t.aborted)
	case last < 0:
		return errors.New("the transaction has no savepoint")
	}
	if sql == lockdb.RollbackToSavepoint || sql == backToSavepoint {
		for _, g := range t.held[t.marks[last]:] {
			s.remove(g)
		}
		t.held, t.aborted = t.held[:t.marks[last]], nil
	}
	if sql != lockdb.RollbackToSavepoint {
		t.marks = t.marks[:last]
	}
	return nil
}

// results carries out the statements of a batch one after the other, as their results are read. After an error the rest is
// not carried out.
type results struct {
	ctx   context.Context
	tx    *Tx
	queue []*pgx.QueuedQuery
	err   error
}

var errNoResult = errors.New("locktest: the batch has no further result")

// next returns the statement whose result is read; own says that it has been carried out.
func (r *results) next() (query *pgx.QueuedQuery, own bool, err error) {
	switch {
	case r.err != nil:
		return nil, false, r.err
	case len(r.queue) == 0:
		return nil, false, errNoResult
	}
	query, r.queue = r.queue[0], r.queue[1:]
	if !isOwn(query) {
		return query, false, nil
	}
	r.err = r.tx.carryOut(r.ctx, query)
	return query, true, r.err
}

// Exec implements [pgx.BatchResults].
func (r *results) Exec() (tag pgconn.CommandTag, err error) {
	query, own, err := r.next()
	if err == nil && !own {
		tag, err = r.tx.Exec(r.ctx, query.SQL, query.Arguments...)
		r.err = err
	}
	return tag, err
}

// Query implements [pgx.BatchResults].
func (r *results) Query() (pgx.Rows, error) {
	query, own, err := r.next()
	if err != nil || own {
		return nil, errors.Join(err, errors.New("locktest: the result of a lock has no rows: read it by Exec"))
	}
	rows, err := r.tx.Query(r.ctx, query.SQL, query.Arguments...)
	r.err = err
	return rows, err
}

// QueryRow implements [pgx.BatchResults].
func (r *results) QueryRow() pgx.Row {
	query, own, err := r.next()
	switch {
	case err != nil:
		return nothing{err}
	case own:
		return nothing{pgx.ErrNoRows}
	}
	return r.tx.QueryRow(r.ctx, query.SQL, query.Arguments...)
}

// Close implements [pgx.BatchResults]: it reads the results that have not been read.
func (r *results) Close() error {
	for r.err == nil && len(r.queue) > 0 {
		var err error
		if read := r.queue[0].Fn; read != nil {
			err = read(r)
		} else {
			_, err = r.Exec()
		}
		if err != nil {
			r.err = err
		}
	}
	return r.err
}

// Tx implements [pgx.BatchResults]: the batch is inside a transaction and begins none.
func (r *results) Tx() pgx.Tx { return nil }
