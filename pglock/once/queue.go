package once

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// Queue is [Tx] in the round trip of the batch b. Nothing that is queued behind it is carried out unless this transaction
// is the first. In the batch it has exactly two results: that of a look at the owner of schema pglock, and that of the
// statement that is returned.
//
// Otherwise it is an error of the batch, which aborts the whole batch and its transaction: with [ErrDone] too there is
// nothing to go on with but rollback, and what was queued before it is not done either. So it belongs at the beginning of
// a transaction of its own, as with [pgx.Batch.BeginTx]. It waits for as long as the context lasts, or, with MaxWait(0),
// not at all; another MaxWait is an error, since a batch cannot bound one of its statements and go on.
//
// Results read by [pgx.BatchResults.Close] have the errors of this package, and a [pglock.WaitError] does not say who is
// in the way. Errors that pgx returns for the batch as a whole, such as that the statement could not be prepared because
// schema pglock is missing, and those of results that are read by hand, are mapped by [TxError].
func Queue(b *pgx.Batch, scope, id string, opts ...Option) *pgx.QueuedQuery {
	c, err := configure(scope, id, opts)
	if err == nil && c.maxWait > 0 {
		err = errors.New("MaxWait in a batch can only be 0, which does not wait at all (use Tx)")
	}
	if err != nil {
		err = failed(scope, id, err)
	}
	look := trusted.Queue(b, c.owners)
	look.Query.Fn = func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return explain(scope, id, look.Explain(err))
	}
	query := b.Queue(lockdb.OnceOrRaise, &queued{err}, scope, id, c.fingerprint, !c.bounded)
	query.Fn = func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return explain(scope, id, err)
	}
	return query
}

// queued keeps a batch from being sent that could not be right.
type queued struct{ err error }

// RewriteQuery implements [pgx.QueryRewriter], which is called while the batch is being made ready. It rewrites nothing.
func (q *queued) RewriteQuery(_ context.Context, _ *pgx.Conn, sql string, args []any) (string, []any, error) {
	return sql, args, q.err
}
