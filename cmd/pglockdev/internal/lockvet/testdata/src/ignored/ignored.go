package ignored

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

var key pglock.Key

func locks(ctx context.Context, tx pgx.Tx, l *pglock.Locker) {
	pglock.LockTx(ctx, tx, key)               // want `the error of LockTx is ignored, so the work goes on without the lock`
	_ = pglock.TryLockTx(ctx, tx, key)        // want `the error of TryLockTx is ignored`
	go pglock.LockAllTx(ctx, tx, nil)         // want `the error of LockAllTx is ignored`
	defer pglock.LockTx(ctx, tx, key)         // want `the error of LockTx is ignored`
	_ = (pglock.LockTx(ctx, tx, key))         // want `the error of LockTx is ignored`
	l.Do(ctx, key, nil)                       // want `the error of Do is ignored, and only it says that the function was not called`
	_ = l.Do(ctx, key, nil)                   // who holds the lock does the work
	lock, _ := l.TryLock(ctx, key)            // want `the error of TryLock is ignored`
	_ = lock.GuardTx(ctx, tx)                 // want `the error of GuardTx is ignored, so the transaction goes on without the guard`
	(*semaphore.Permit).GuardTx(nil, ctx, tx) // want `the error of GuardTx is ignored`
	fence, _ := lock.Fence(ctx)               // want `the error of Fence is ignored, and only it says that the lock is lost`
	_ = fence
	if err := pglock.LockTx(ctx, tx, key); err != nil {
		return
	}
	_, _ = l.Lock(ctx, key)     // pglockunlock reports it
	pglock.LockTx(ctx, tx, key) //pglock:allow to show that it does no harm
	//pglock:allow as above
	pglock.LockTx(ctx, tx, key)
}
