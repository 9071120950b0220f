package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func ExampleNewMemory() {
	ctx := context.Background()
	locker, err := locktest.NewMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	err = locker.Do(ctx, pglock.NewKey("a"), func(context.Context, *pglock.Lock) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// Two Lockers of one Server are like two processes.
func ExampleServer() {
	ctx := context.Background()
	server := locktest.NewServer()
	ours, err := server.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer ours.Close(ctx)
	theirs, err := server.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close(ctx)

	lock, err := ours.Lock(ctx, pglock.NewKey("a"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = theirs.TryLock(ctx, pglock.NewKey("a"))
	fmt.Println(errors.Is(err, pglock.ErrNotAcquired))
	server.Lose(pglock.NewKey("a"))
	fmt.Println(errors.Is(lock.Unlock(ctx), pglock.ErrLost))
	// Output:
	// true
	// true
}
