package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// exampleSemaphore has n permits, and end closes its Locker.
func exampleSemaphore(n int) (sem *semaphore.Semaphore, end func()) {
	locker, err := pglock.Open(context.Background(), testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	sem, err = semaphore.New(locker, pglock.NewKey("thumbnails"), n)
	if err != nil {
		log.Fatal(err)
	}
	return sem, func() {
		if err := locker.Close(context.Background()); err != nil {
			log.Print(err)
		}
	}
}

func ExampleSemaphore_Do() {
	ctx := context.Background()
	sem, end := exampleSemaphore(10)
	defer end()
	err := sem.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
		fmt.Println("one of", sem.Limit()) // ctx ends if the permit is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of 10
	// <nil>
}

func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	sem, end := exampleSemaphore(2)
	defer end()
	both, err := sem.AcquireN(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	_, err = sem.TryAcquire(ctx)
	fmt.Println(errors.Is(err, pglock.ErrNotAcquired))

	if err := both.Release(ctx); err != nil {
		log.Fatal(err)
	}
	one, err := sem.TryAcquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.Weight(), one.Release(ctx))
	// Output:
	// true
	// 1 <nil>
}

// A permit of a transaction needs no Locker, and ends with the transaction.
func ExampleAcquireTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := semaphore.AcquireTx(ctx, tx, pglock.NewKey("exports"), 3); err != nil {
			return err
		}
		fmt.Println("one of three exports")
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of three exports
	// <nil>
}
