package querylock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/lastrows"
)

// Tx is a transaction that takes the locks of queries. It is a [pgx.Tx] that knows the queries of one generated package
// and no others: Exec, Query, QueryRow and SendBatch answer any other SQL with [ErrUnknownQuery], and so does a
// known name with another text. A query without a lock is passed on as it is.
//
// A query and its locks are statements of one batch. So they are one round trip wherever a batch is, and the query's
// snapshot is younger than its locks. All of a query's locks, and those of a batch of queries, are taken in one
// order, so that no two of them can deadlock over locks. They last until the transaction ends. No part of the query
// is executed without them.
//
// If a lock is not granted (with try at once, else after max_wait), the transaction is as it was before the query.
// The error of max_wait names the holder, which takes some more round trips. After any other failure of a lock (a
// stale snapshot, a standby, a context that ends) it is aborted and can only be rolled back. An argument that makes
// no key is [pglock.ErrInvalidKey], before anything is sent. Errors of locks are those of [pglock.QueueLockTx]; as
// there, only max_wait bounds a wait without losing the connection, a wait for one's own Lock is not detected, nor is any
// deadlock but those that PostgreSQL sees, and the log shows no wait.
//
// Commit, Rollback, CopyFrom, LargeObjects and Conn are those of the transaction itself, and take no locks. Prepare is
// refused. Begin begins a savepoint that takes locks too.
type Tx struct {
	inner
	set  *Set
	opts []pglock.TxOption
	wait bool  // opts bounds the waits
	err  error // of opts, or of a nil transaction
}

// inner is the transaction itself, whose other methods are those of the Tx.
type inner = pgx.Tx

var _ pgx.Tx = (*Tx)(nil)

// Tx returns tx with locks. The options are for all its locks, such as [pglock.WithObserver]; try and max_wait of a query
// override a [pglock.MaxWait], and [pglock.Shared] is an error. If tx is a Tx already, the one returned replaces it. A nil
// tx, and options that are wrong, are answered by the methods, with an error.
func (s *Set) Tx(tx pgx.Tx, opts ...pglock.TxOption) *Tx {
	if wrapped, ok := tx.(*Tx); ok && wrapped != nil {
		tx = wrapped.inner
	}
	settings, err := hooks.ReadTxOptions(opts)
	switch {
	case tx == nil:
		err = errors.New("pglock: the transaction is nil")
	case settings.Shared:
		err = errors.New("pglock: Shared: a query's lock is shared if its comment says so")
	}
	return &Tx{tx, s, opts, settings.Bounded, err}
}

// Exec implements [pgx.Tx].
func (t *Tx) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	results, err := t.send(ctx, sql, arguments)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	if results == nil {
		return t.inner.Exec(ctx, sql, arguments...)
	}
	tag, err := results.Exec()
	return tag, cmp.Or(err, results.Close())
}

// Query implements [pgx.Tx]. The batch ends with its rows: when they have all been read, are closed, or fail.
func (t *Tx) Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error) {
	results, err := t.send(ctx, sql, arguments)
	if err != nil {
		return failedRows{err: err}, err
	}
	if results == nil {
		return t.inner.Query(ctx, sql, arguments...)
	}
	rows, err := lastrows.Query(results)
	if err != nil {
		return failedRows{err: err}, err
	}
	return rows, nil
}

// QueryRow implements [pgx.Tx]. The batch ends with Scan.
func (t *Tx) QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row {
	results, err := t.send(ctx, sql, arguments)
	if err != nil {
		return failedRows{err: err}
	}
	if results == nil {
		return t.inner.QueryRow(ctx, sql, arguments...)
	}
	return lastrows.Row{Results: results}
}

// SendBatch implements [pgx.Tx]: the locks of all the batch's queries come first, and then the queries. Queries of one
// batch that lock must have the same options.
func (t *Tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	request, err := t.batchRequest(b)
	if err != nil {
		return &batchResults{err: err}
	}
	if len(request.locks) == 0 {
		return t.inner.SendBatch(ctx, b)
	}
	return request.send(ctx, t.inner, b.QueuedQueries)
}

// send sends a query with its locks, and returns the results when the locks have been granted; nil when the query
// has none.
func (t *Tx) send(ctx context.Context, sql string, arguments []any) (pgx.BatchResults, error) {
	if t.err != nil {
		return nil, t.err
	}
	query, err := t.set.find(sql)
	if err != nil {
		return nil, err
	}
	locks, err := query.wanted(arguments)
	if err != nil || len(locks) == 0 {
		return nil, err
	}
	request := lockRequest{t, query, locks}
	results := request.send(ctx, t.inner, []*pgx.QueuedQuery{{SQL: sql, Arguments: arguments}})
	if err := results.locked(); err != nil {
		return nil, err
	}
	return results, nil
}

// batchRequest is the locks of all queries in the batch.
func (t *Tx) batchRequest(b *pgx.Batch) (request lockRequest, err error) {
	request.on = t
	switch {
	case t.err != nil:
		return request, t.err
	case b == nil:
		return request, errors.New("pglock: the batch is nil")
	}
	for _, queued := range b.QueuedQueries {
		query, err := t.set.find(queued.SQL)
		if err != nil {
			return request, err
		}
		if len(query.locks) == 0 {
			continue
		}
		locks, err := query.wanted(queued.Arguments)
		if err != nil {
			return request, err
		}
		if request.query == nil {
			request.query = query
		}
		if query.Options != request.query.Options {
			return request, fmt.Errorf("pglock: queries %s and %s are in one batch, but their locks have different options",
				request.query.name, query.name)
		}
		request.locks = append(request.locks, locks...)
	}
	return request, nil
}

// Begin begins a savepoint, and returns it with locks. Rolling back to it frees the locks that were taken since.
func (t *Tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.err != nil {
		return nil, t.err
	}
	nested, err := t.inner.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return t.set.Tx(nested, t.opts...), nil
}

// Prepare refuses: a prepared statement is called by its own name, which does not identify the query.
func (t *Tx) Prepare(_ context.Context, name, _ string) (*pgconn.StatementDescription, error) {
	return nil, fmt.Errorf("pglock: prepare %s: %w: a transaction with locks does not prepare statements",
		shorttext.Quote(name), pglock.ErrUnsupported)
}
