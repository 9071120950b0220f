package ignored

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

func overwritten(ctx context.Context, tx pgx.Tx, l *pglock.Locker) error {
	err := pglock.LockTx(ctx, tx, key) // want `the error of LockTx is ignored`
	err = tx.Exec(ctx, "UPDATE t SET a = 1")
	if err != nil {
		return err
	}
	lock, err := l.Lock(ctx, key) // want `the error of Lock is ignored`
	_, err = lock.Fence(ctx)
	if err != nil {
		return err
	}
	err = lock.GuardTx(ctx, tx) // want `the error of GuardTx is ignored`
	return nil
}

func read(ctx context.Context, tx pgx.Tx, lock *pglock.Lock, other bool) (result error) {
	err := pglock.LockTx(ctx, tx, key)
	err = errors.Join(err, lock.GuardTx(ctx, tx))
	if err != nil {
		return err
	}
	err = pglock.LockTx(ctx, tx, key)
	if other {
		return err
	}
	err = lock.GuardTx(ctx, tx)
	defer func() { result = errors.Join(result, err) }()
	result = pglock.LockTx(ctx, tx, key)
	return
}

func inLoop(ctx context.Context, tx pgx.Tx) error {
	var err error
	for range 3 {
		if err != nil {
			continue
		}
		err = pglock.LockTx(ctx, tx, key)
	}
	return nil
}
