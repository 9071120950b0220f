package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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
		fmt.Println("one of ten") // ctx ends if the permit is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of ten
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
	fmt.Println(one.Release(ctx))
	// Output:
	// true
	// <nil>
}
