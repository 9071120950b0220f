package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txExamplePool is the pool that a program already has.
func txExamplePool(ctx context.Context) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

// txExampleHold has another transaction hold the lock until release is called.
func txExampleHold(ctx context.Context, pool *pgxpool.Pool, key pglock.Key, opts ...pglock.TxOption) (release func()) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := pglock.LockTx(ctx, tx, key, opts...); err != nil {
		log.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(ctx); err != nil {
			log.Fatal(err)
		}
	}
}

// Two requests for one invoice come at once. The lock makes the second wait until the first has committed, so that it
// sees what the first did.
func ExampleLockTx() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()

	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := pglock.LockTx(ctx, tx, pglock.NewKey("invoice:42")); err != nil {
			return err
		}
		fmt.Println("this transaction alone works on invoice 42")
		return nil // the commit frees the lock
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: this transaction alone works on invoice 42
}

// Work that another transaction is doing already need not be done again.
func ExampleTryLockTx() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()
	defer txExampleHold(ctx, pool, pglock.NewKey("refresh:rates"))()

	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := pglock.TryLockTx(ctx, tx, pglock.NewKey("refresh:rates"))
		if errors.Is(err, pglock.ErrNotAcquired) {
			fmt.Println("another transaction is at it:", err)
			return nil // the transaction can continue
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// another transaction is at it: pglock: lock "refresh:rates" not acquired: already held
}

// A transfer needs both accounts. Transfers in both directions cannot deadlock, since LockAllTx takes the locks in a
// fixed order.
func ExampleLockAllTx() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()

	transfer := func(from, to string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			accounts := []pglock.Key{pglock.NewKey("account:" + from), pglock.NewKey("account:" + to)}
			if err := pglock.LockAllTx(ctx, tx, accounts); err != nil {
				return err
			}
			fmt.Println("from", from, "to", to)
			return nil
		})
	}
	if err := errors.Join(transfer("alice", "bob"), transfer("bob", "alice")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// from alice to bob
	// from bob to alice
}

// Begin, lock, run, commit.
func ExampleBeginFunc() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()

	err := pglock.BeginFunc(ctx, pool, pglock.NewKey("counter"), func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT 41 + 1").Scan(&n); err != nil {
			return err
		}
		fmt.Println(n)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 42
}

// A REPEATABLE READ transaction would read data that is older than the lock. If the lock protects something else,
// such as a file, that does no harm.
func ExampleAllowStaleSnapshot() {
	ctx := context.Background()
	pool := txExamplePool(ctx)
	defer pool.Close()

	export := func(tx pgx.Tx) error {
		err := pglock.LockTx(ctx, tx, pglock.NewKey("export.csv"))
		fmt.Println("refused:", errors.Is(err, pglock.ErrStaleSnapshot))
		return pglock.LockTx(ctx, tx, pglock.NewKey("export.csv"), pglock.AllowStaleSnapshot())
	}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, export)
	fmt.Println("allowed:", err == nil)
	// Output:
	// refused: true
	// allowed: true
}
