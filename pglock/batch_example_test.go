package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Begin, lock and work are one round trip; the commit is the second. Nothing after the lock is executed without it.
func ExampleQueueLockTx() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()

	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{})
	pglock.QueueLockTx(batch, pglock.NewKey("invoice:42"))
	batch.Queue("SELECT 6 * 7").QueryRow(func(row pgx.Row) error {
		var n int
		err := row.Scan(&n)
		fmt.Println("under the lock:", n)
		return err
	})

	conn, err := pool.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, batch)
	if err := results.Close(); err != nil { // the lock's error, as that of LockTx, or the work's
		log.Fatal(errors.Join(err, results.Tx().Rollback(ctx)))
	}
	if err := results.Tx().Commit(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: under the lock: 42
}
