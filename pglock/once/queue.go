package once

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Queue is [Scope.Tx] in the round trip of the batch b. Statements queued after it run only if this transaction is the first.
// It has exactly two results in the batch: one of a check of the owner of schema pglock, and one of the returned
// statement.
//
// If this transaction is not the first, the statement fails, and with it the whole batch and its transaction: even
// after [pglock.ErrDone] the transaction can only be rolled back, and what was queued earlier is undone too. So Queue belongs
// at the start of its own transaction, as with [pgx.Batch.BeginTx]. It waits until the context ends or, with
// MaxWait(0), not at all; another MaxWait is an error, since a batch cannot bound one of its statements and continue.
//
// [pgx.BatchResults.Close] returns the errors of this package; a [pglock.WaitError] among them does not name the
// holder. Use [TxError] to map errors of results that are read by hand, and errors that pgx returns for the whole
// batch, as when the statement could not be prepared because schema pglock is missing.
func (s *Scope) Queue(b *pgx.Batch, id string, opts ...pglock.TxOption) *pgx.QueuedQuery {
	c, err := s.call(id, opts)
	switch {
	case err != nil:
		return b.Queue("", &queued{err})
	case c.MaxWait > 0:
		err = s.failed(id, errors.New("MaxWait in a batch can only be 0, which does not wait at all (use Tx)"))
	case c.Observer.(*pglock.Observer).Recorded != nil:
		err = s.failed(id, errors.New("WithObserver does not report from a batch (use Tx)"))
	}
	look := trusted.Queue(b, s.owners)
	look.Query.Fn = func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return explain(s.name, id, look.Explain(err))
	}
	query := b.Queue(lockdb.OnceOrRaise, &queued{err}, s.name, id, s.fingerprint, !c.Bounded)
	query.Fn = func(results pgx.BatchResults) error {
		_, err := results.Exec()
		return explain(s.name, id, err)
	}
	return query
}

// queued keeps an invalid batch from being sent.
type queued struct{ err error }

// RewriteQuery implements [pgx.QueryRewriter], which pgx calls while it prepares the batch. It rewrites nothing.
func (q *queued) RewriteQuery(_ context.Context, _ *pgx.Conn, sql string, args []any) (string, []any, error) {
	return sql, args, q.err
}
