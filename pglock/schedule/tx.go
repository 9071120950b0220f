package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// RunTx is [Job.Run] for a job whose effects are in db, the database of the Locker: fn's writes in tx commit
// together with the record of the run. So they happen exactly once for each due time, if some process asks again
// after a failure. The transaction is READ COMMITTED and guarded by the lock ([pglock.Lock.GuardTx]): if the lock is
// lost, it cannot commit after another process has begun the same run. The context of fn is tied to it
// ([pglock.TxContext]).
//
// fn must neither commit nor roll back. If it fails, or ctx or the lock ends, everything is rolled back, and the run
// does not count as done. A job with [WithMark] is refused. On Redis it is [pglock.ErrUnsupported].
func (j *Job) RunTx(
	ctx context.Context, db pglock.DB, due time.Time,
	fn func(ctx context.Context, tx pgx.Tx, lock *pglock.Lock) error, opts ...pglock.LockOption,
) error {
	if fn == nil || db == nil {
		return j.failed(due, errors.New("the function or the DB is nil"))
	}
	if j.config.marked {
		return j.failed(due, errors.New("WithMark contradicts RunTx, whose runs count when they commit"))
	}
	return j.run(ctx, due, opts, func(r *run) error { return r.locked(ctx, r.inTx(db, fn)) })
}

// inTx is a run that is recorded together with its work.
//
// The record is made before fn runs: if this process lost the lock without noticing, another process with the same run
// waits for this transaction to end, and then finds the record or its absence.
func (r *run) inTx(db pglock.DB, fn func(context.Context, pgx.Tx, *pglock.Lock) error) work {
	return func(ctx context.Context, lock *pglock.Lock) error {
		if err := r.await(ctx, runstore.StepAttempt); err != nil {
			return err
		}
		var inside error
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			inside = r.recorded(ctx, tx, lock, fn)
			return inside
		})
		if inside == nil { // it is of the begin or the commit
			err = sqlstate.Explain(sqlstate.EndedBy(ctx, err))
		}
		return err
	}
}

// recorded records the run in tx, and runs fn there.
func (r *run) recorded(
	ctx context.Context, tx pgx.Tx, lock *pglock.Lock, fn func(context.Context, pgx.Tx, *pglock.Lock) error,
) error {
	if err := lock.GuardTx(ctx, tx); err != nil {
		return err
	}
	done := r.request(runstore.StepDone)
	done.Tx = tx
	state, err := runstore.Record(ctx, r.locker, done)
	if err != nil {
		return err
	}
	if state.Done {
		return pglock.ErrDone
	}
	if ctx, err = pglock.TxContext(ctx, tx); err != nil {
		return err
	}
	return r.call(ctx, lock, func(ctx context.Context, lock *pglock.Lock) error { return fn(ctx, tx, lock) })
}
