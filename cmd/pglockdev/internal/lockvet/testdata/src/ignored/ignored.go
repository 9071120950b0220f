package ignored

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

var key pglock.Key

func locks(ctx context.Context, tx pgx.Tx, l *pglock.Locker, done *once.Scope) {
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
	_ = done.Tx(ctx, tx, "42")                // want `the error of Tx is ignored, and only it says that the work has been done`
	_ = fence
	if err := pglock.LockTx(ctx, tx, key); err != nil {
		return
	}
	_, _ = l.Lock(ctx, key) // pglockunlock reports it
}

func unlocks(ctx context.Context, lock *pglock.Lock, work func() error) error {
	defer lock.Unlock(ctx)
	defer func() { _ = lock.Unlock(ctx) }()
	if err := work(); err != nil {
		lock.Unlock(ctx)
		return err
	}
	defer func() { lock.Unlock(ctx) }()
	for ctx.Err() == nil {
		if err := work(); err != nil && ctx.Err() == nil {
			lock.Unlock(ctx)
			continue
		} else {
			new(semaphore.Permit).Release(ctx) // want `the error of Release is ignored, and it says if the lock was lost`
			lock.Unlock(ctx)                   // want `the error of Unlock is ignored`
		}
	}
	if work() == nil {
		print("done")
	} else {
		lock.Unlock(ctx)
		log.Fatal("it failed")
	}
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	switch {
	case work() == nil:
		lock.Unlock(ctx) // want `the error of Unlock is ignored, and it says if the lock was lost`
	}
	lock.Unlock(ctx) // want `the error of Unlock is ignored`
	return nil
}
