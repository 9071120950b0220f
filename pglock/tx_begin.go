package pglock

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
// The wait keeps the connection, as with [LockTx]. If ctx ends before the pool has a free connection, the error
// says how many are in use, and matches [ErrUnavailable] and the context's error. A server that cannot be reached
// is [ErrUnavailable], too, and one that denies access [ErrDenied]. If the connection ends during the commit, the error
// is [ErrUnavailable], and the transaction may have been committed.
func BeginFunc(ctx context.Context, db DB, key Key, fn func(context.Context, pgx.Tx) error, opts ...TxOption) error {
	if isNil(db) || fn == nil {
		return failed("begin a transaction and lock", key, 0, errors.New("the DB or the function is nil"))
	}
	var began bool
	var inside error // of the lock, or of fn
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		began = true
		within := &txContext{Context: ctx}
		if inside = lockTx(ctx, tx, key, false, &within.tie, opts); inside == nil {
			inside = fn(within, tx)
		}
		return inside
	})
	switch {
	case err == nil || inside != nil:
		return err
	case !began:
		return notBegun(ctx, db, key, err)
	}
	if explained := sqlstate.Explain(sqlstate.EndedBy(ctx, err)); explained != err {
		return failed("commit a transaction under", key, 0, explained)
	}
	return err
}

// notBegun returns the error of a transaction that did not begin. It names the lock that the transaction was for and,
// where that is certain, the reason.
func notBegun(ctx context.Context, db any, key Key, err error) error {
	switch inUse := fullPool(ctx, db); {
	case inUse > 0:
		err = fmt.Errorf("%w: all %d connections of the pool are in use, and transactions that wait for locks keep theirs "+
			"(bound waits with MaxWait, or take contended locks with a Locker): %w", ErrUnavailable, inUse, contextError(ctx, err))
	default:
		err = sqlstate.Explain(sqlstate.EndedBy(ctx, err))
	}
	return failed("begin a transaction and lock", key, 0, err)
}

// fullPool returns the size of the pool db if ctx has ended while all its connections are in use, and otherwise 0.
func fullPool(ctx context.Context, db any) int32 {
	pool, ok := db.(interface{ Stat() *pgxpool.Stat })
	if !ok || ctx.Err() == nil {
		return 0
	}
	stat := pool.Stat()
	if stat.AcquiredConns() < stat.MaxConns() {
		return 0
	}
	return stat.MaxConns()
}

// isNil reports whether db is nil, or a nil pointer to a pool or connection.
func isNil(db any) bool {
	v := reflect.ValueOf(db)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
