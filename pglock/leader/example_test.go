package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

func exampleLocker() *pglock.Locker {
	locker, err := pglock.Open(context.Background(), testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

func ExampleRun() {
	locker := exampleLocker()
	defer locker.Close(context.Background())
	ctx, stop := context.WithCancel(context.Background()) // in a program, signal.NotifyContext

	err := leader.Run(ctx, locker, pglock.NewKey("scheduler"), func(ctx context.Context, lock *pglock.Lock) error {
		fmt.Println("leading with the lock", lock.Key())
		stop()
		<-ctx.Done() // it ends with the program, or when this process no longer leads
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// leading with the lock scheduler
	// true
}

func ExampleNew() {
	locker := exampleLocker()
	defer locker.Close(context.Background())
	elector, err := leader.New(locker, pglock.NewKey("scheduler"), leader.WithEvents(func(e leader.Event) {
		fmt.Println(e.Type)
	}))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = elector.Run(ctx, func(context.Context, *pglock.Lock) error {
		fmt.Println(elector.IsLeader())
		stop()
		return nil
	})
	fmt.Println(elector.IsLeader(), err)
	// Output:
	// elected
	// true
	// ended
	// false context canceled
}
