package pglock

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
)

// DB is a pool or a connection of pgx.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// BeginFunc begins a transaction, takes the lock in it as [LockTx] does, runs fn, and commits. It rolls back, which
// frees the lock, when the lock is not granted, when fn returns an error, and when fn panics. The error is fn's own,
// the lock's, or that of beginning or committing. The transaction has the session's default isolation level.
//
// The context of fn is ctx, tied to the transaction as by [TxContext], but without a round trip, and not as the work
// of a Lock. A lock that is not free takes one more round trip than [LockTx].
//
// The wait keeps the connection, as with [LockTx]. If ctx ends before the pool has a free connection, the error is the
// context's. A server that cannot be reached is [ErrUnavailable], and one that denies access [ErrDenied]. If the
// connection ends during the commit, the error is [ErrUnavailable], and the transaction may have been committed.
func BeginFunc(ctx context.Context, db DB, key Key, fn func(context.Context, pgx.Tx) error, opts ...TxOption) error {
	const attempt = "begin, lock and commit a transaction under"
	if db == nil || fn == nil {
		return failed(attempt, key, 0, errors.New("the DB or the function is nil"))
	}
	var inside error // of the lock, or of fn
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		within := &txContext{Context: ctx}
		if inside = lockTx(ctx, tx, key, false, &within.tie, opts); inside == nil {
			inside = fn(within, tx)
		}
		return inside
	})
	if err == nil || inside != nil {
		return err
	}
	if explained := sqlstate.Explain(sqlstate.EndedBy(ctx, err)); explained != err {
		return failed(attempt, key, 0, explained)
	}
	return err
}
