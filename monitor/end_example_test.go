package monitor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Terminate the session that holds a lock, after looking at everything that ends with it.
func ExampleTerminate() {
	ctx := context.Background()
	pool, done := startIdleHolder(ctx)
	defer done()

	snapshot, err := monitor.Take(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	lock, _ := snapshot.Find(pglock.NewKey("invoice:42"))
	target, err := snapshot.Target(monitor.SessionID{PID: lock.Holders[0].PID})
	if err != nil {
		log.Fatal(err)
	}
	for _, lock := range target.Holds {
		fmt.Println("frees", lock.Key, "for", len(lock.Waiters), "waiters")
	}
	for _, warning := range target.Warnings("terminate") {
		fmt.Println("note:", warning)
	}

	outcome, err := monitor.Terminate(ctx, pool, target) // this session or none
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended:", outcome.Ended, "still held:", outcome.Locks[0].Kept)
	// Output:
	// frees invoice:42 for 0 waiters
	// note: its transaction is rolled back
	// ended: true still held: false
}

// Cancelling ends a statement. An idle session runs no statement.
func ExampleCancel() {
	ctx := context.Background()
	pool, done := startIdleHolder(ctx)
	defer done()

	snapshot, err := monitor.Take(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	target, err := snapshot.Target(monitor.SessionID{PID: snapshot.Locks[0].Holders[0].PID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("futile:", target.CancelIsNoop())
	outcome, err := monitor.Cancel(ctx, pool, target)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("effective:", outcome.Effective(), "still held:", outcome.Locks[0].Kept)
	// Output:
	// futile: true
	// effective: false still held: true
}

// startIdleHolder begins a transaction that holds the lock "invoice:42" and does nothing.
func startIdleHolder(ctx context.Context) (pool *pgxpool.Pool, done func()) {
	config := orFatal(pgxpool.ParseConfig(testenv.ForExamples().ConnString()))
	pool = orFatal(pgxpool.NewWithConfig(ctx, config))
	orFatal(0, migrations.Up(ctx, pool))
	orFatal(pool.Exec(ctx, "SELECT pglock.register('invoice:42')"))
	holder := orFatal(pgx.ConnectConfig(ctx, withApplication(config, "checkout")))
	orFatal(0, pglock.LockTx(ctx, orFatal(holder.Begin(ctx)), pglock.NewKey("invoice:42")))
	return pool, func() {
		_ = holder.Close(ctx) // one of the examples has terminated it
		pool.Close()
	}
}
