package querylock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// lockRequest is the locks of a query, or of a batch of them.
type lockRequest struct {
	on    *Tx
	query *query // of several, the first with a lock
	locks []wanted
}

// The savepoint is released before the query runs, so that an error of the query's own aborts the transaction as
// usual, and the locks stay.
const goBack = lockdb.RollbackToSavepoint + ";" + lockdb.ReleaseSavepoint

// send sends the locks and then the queries, in one batch.
func (r lockRequest) send(ctx context.Context, tx pgx.Tx, queries []*pgx.QueuedQuery) *batchResults {
	batch := &pgx.Batch{}
	refusable := r.query.Try || r.query.MaxWait > 0 || r.on.wait
	if refusable {
		batch.Queue(lockdb.Savepoint)
	}
	for _, run := range runs(r.locks) {
		r.queue(batch, run)
	}
	if refusable {
		batch.Queue(lockdb.ReleaseSavepoint)
	}
	ahead := batch.QueuedQueries
	batch.QueuedQueries = append(ahead[:len(ahead):len(ahead)], queries...)
	asked := driver.Now()
	return &batchResults{
		BatchResults: tx.SendBatch(ctx, batch), ctx: ctx, tx: tx,
		query: r.query, asked: asked, ahead: ahead,
	}
}

func (r lockRequest) queue(batch *pgx.Batch, run run) {
	opts := slices.Clone(r.on.opts)
	if run.shared {
		opts = append(opts, pglock.Shared())
	}
	if r.query.MaxWait > 0 {
		opts = append(opts, pglock.MaxWait(r.query.MaxWait))
	}
	if r.query.Try {
		opts = append(opts, pglock.MaxWait(0))
	}
	pglock.QueueLockAllTx(batch, run.keys, opts...)
}

// batchResults are the results of a batch behind those of its locks.
type batchResults struct {
	pgx.BatchResults
	ctx   context.Context
	tx    pgx.Tx
	query *query
	asked driver.Instant     // when it was sent
	ahead []*pgx.QueuedQuery // the locks whose results have not been read
	saved bool               // a savepoint has been set
	err   error              // of the locks, or of not sending the batch at all
}

// locked reads the results of the locks, once. When a lock is refused the batch is over: it is closed here, and the
// transaction goes back to where it was, if there is a savepoint.
func (r *batchResults) locked() error {
	for ; len(r.ahead) > 0 && r.err == nil; r.ahead = r.ahead[1:] {
		if err := r.read(r.ahead[0]); err != nil {
			r.err = r.refused(err)
		}
	}
	return r.err
}

func (r *batchResults) read(queued *pgx.QueuedQuery) error {
	if queued.Fn != nil { // a lock's, which knows what its errors mean
		return queued.Fn(r.BatchResults)
	}
	_, err := r.BatchResults.Exec()
	r.saved = err == nil
	return pglock.TxError(err)
}

func (r *batchResults) refused(err error) error {
	_ = r.BatchResults.Close() // its error is the server's error of the lock
	err = waited(r.asked, r.query, err)
	var broken error
	if r.saved && r.isAborted() {
		_, broken = r.tx.Exec(r.ctx, goBack, pgx.QueryExecModeSimpleProtocol)
		if wait := (*pglock.WaitError)(nil); broken == nil && errors.As(err, &wait) && wait.Waited > 0 {
			wait.Holders, broken = hooks.HoldersTx(r.ctx, r.tx, wait.Keys)
		}
	}
	err = fmt.Errorf("query %s: %w", r.query.name, err) // only now, since it fixes the text
	if broken != nil {
		return errors.Join(err, fmt.Errorf("pglock: roll back to the savepoint: %w", broken))
	}
	return err
}

// isAborted reports whether the transaction is aborted, and so not lost.
func (r *batchResults) isAborted() bool {
	conn := r.tx.Conn()
	return conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'E'
}

// waited adds to the error of a lock how long the query waited. It asks for all its locks at once.
func waited(asked driver.Instant, query *query, err error) error {
	if wait := (*pglock.WaitError)(nil); !query.Try && errors.As(err, &wait) && wait.Waited == 0 {
		wait.Waited = driver.Now().Sub(asked)
	}
	return err
}

func (r *batchResults) Exec() (pgconn.CommandTag, error) {
	if err := r.locked(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.BatchResults.Exec()
}

func (r *batchResults) Query() (pgx.Rows, error) {
	if err := r.locked(); err != nil {
		return failedRows{err: err}, err
	}
	return r.BatchResults.Query()
}

func (r *batchResults) QueryRow() pgx.Row {
	if err := r.locked(); err != nil {
		return failedRows{err: err}
	}
	return r.BatchResults.QueryRow()
}

func (r *batchResults) Close() error {
	if err := r.locked(); err != nil {
		return err
	}
	return r.BatchResults.Close()
}

// Tx implements [pgx.BatchResults]: the batch is inside a transaction and begins none.
func (r *batchResults) Tx() pgx.Tx { return nil }
