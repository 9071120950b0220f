package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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

// Results that are read by hand have the server's errors. TxError explains them.
func ExampleTxError() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()
	defer txExampleHold(ctx, pool, pglock.NewKey("invoice:42"))()

	batch := &pgx.Batch{}
	pglock.QueueLockTx(batch, pglock.NewKey("invoice:42"), pglock.MaxWait(50*time.Millisecond))
	batch.Queue("SELECT 'not carried out'")
	results := pool.SendBatch(ctx, batch)
	_, err := results.Exec()
	fmt.Println(err)
	fmt.Println("not acquired:", errors.Is(pglock.TxError(err), pglock.ErrNotAcquired))
	fmt.Println("the batch failed:", results.Close() != nil)
	// Output:
	// ERROR: canceling statement due to lock timeout (SQLSTATE 55P03)
	// not acquired: true
	// the batch failed: true
}
