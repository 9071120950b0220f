package monitor_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Show who holds a lock and who waits for it. Here one transaction holds "invoice:42" and another one waits. The name is
// known because it was registered.
func ExampleTake() {
	ctx := context.Background()
	pool, commit := checkoutAndRefund(ctx)
	defer pool.Close()
	defer commit()

	snapshot, err := monitor.Take(ctx, pool)
	if err != nil {
		log.Fatal(err)
	}
	lock, found := snapshot.Find(pglock.NewKey("invoice:42"))
	fmt.Println("key:", lock.Key, "in use:", found)
	for _, holder := range lock.Holders {
		fmt.Printf("%s (%s) holds it: %s\n", holder.Application, holder.State, holder.Mode)
	}
	for _, waiter := range lock.Waiters {
		fmt.Printf("%s waits for it: %s\n", waiter.Application, waiter.Mode)
		for _, blocker := range waiter.BlockedBy {
			fmt.Println("  behind the holder:", blocker.PID == lock.Holders[0].PID, blocker.Kind)
		}
	}
	// Output:
	// key: invoice:42 in use: true
	// checkout (idle in transaction) holds it: exclusive
	// refund waits for it: exclusive
	//   behind the holder: true hard
}

// Watch until there are no more waiters. Errors are part of the sequence: the server may answer again for the next
// snapshot.
func ExampleWatcher_Watch() {
	ctx := context.Background()
	pool, commit := checkoutAndRefund(ctx)
	defer pool.Close()
	defer commit()

	for snapshot, err := range monitor.NewWatcher(pool).Watch(ctx, 100*time.Millisecond) {
		if err != nil {
			fmt.Println("no snapshot:", err)
			continue
		}
		waiters := 0
		for wait := range snapshot.Waits() {
			fmt.Println(wait.Application, "waits for", wait.Lock.Key)
			waiters++
		}
		if waiters == 0 {
			fmt.Println("no waiters")
			break
		}
		commit() // the transaction that holds the lock
	}
	// Output:
	// refund waits for invoice:42
	// no waiters
}

// checkoutAndRefund begins a transaction that holds the lock "invoice:42" and another one that waits for it, both until
// commit is called.
func checkoutAndRefund(ctx context.Context) (pool *pgxpool.Pool, commit func()) {
	config := orFatal(pgxpool.ParseConfig(testenv.ForExamples().ConnString()))
	pool = orFatal(pgxpool.NewWithConfig(ctx, config))
	orFatal(0, migrations.Up(ctx, pool))
	orFatal(pool.Exec(ctx, "SELECT pglock.register('invoice:42')"))

	holder := orFatal(pgx.ConnectConfig(ctx, withApplication(config, "checkout")))
	tx := orFatal(holder.Begin(ctx))
	orFatal(0, pglock.LockTx(ctx, tx, pglock.NewKey("invoice:42")))

	waiter := orFatal(pgx.ConnectConfig(ctx, withApplication(config, "refund")))
	done := make(chan error)
	go func() {
		done <- pglock.BeginFunc(ctx, waiter, pglock.NewKey("invoice:42"), func(context.Context, pgx.Tx) error { return nil })
	}()
	for len(orFatal(monitor.Take(ctx, pool)).Locks[0].Waiters) == 0 {
		time.Sleep(time.Millisecond)
	}
	return pool, sync.OnceFunc(func() {
		orFatal(0, tx.Commit(ctx))
		orFatal(0, <-done)
		orFatal(0, holder.Close(ctx))
		orFatal(0, waiter.Close(ctx))
	})
}

func withApplication(config *pgxpool.Config, application string) *pgx.ConnConfig {
	connConfig := config.Copy().ConnConfig
	connConfig.RuntimeParams["application_name"] = application
	return connConfig
}

func orFatal[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
