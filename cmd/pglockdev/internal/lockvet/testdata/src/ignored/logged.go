package ignored

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

func logs(ctx context.Context, tx pgx.Tx, lock *pglock.Lock) error {
	if err := pglock.LockTx(ctx, tx, key); err != nil { // want `the error of LockTx does not end the work, which goes on without it: return it`
		log.Print(err)
	}
	err := lock.GuardTx(ctx, tx) // want `the error of GuardTx does not end the work`
	if err != nil {
		log.Print(err)
	}
	return tx.Exec(ctx, "update")
}

func ends(ctx context.Context, tx pgx.Tx, more func()) (err error) {
	if err := pglock.LockTx(ctx, tx, key); err != nil {
		log.Print(err)
		return err
	}
	if err := pglock.LockTx(ctx, tx, key); err != nil {
		log.Fatal(err)
	}
	if err := pglock.TryLockTx(ctx, tx, key); err != nil {
		log.Print(err)
	} else {
		more()
	}
	free := true
	if err := pglock.TryLockTx(ctx, tx, key); err != nil {
		free = false
	}
	if free {
		more()
	}
	err = tx.Exec(ctx, "update")
	if err != nil {
		log.Print(err)
	}
	if err := pglock.LockTx(ctx, tx, key); err != nil {
		log.Print(err)
	}
	return tx.Rollback(ctx) // whatever happened
}
