package pglock_test

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock"
)

func ExampleWithObserver() {
	ctx := context.Background()
	locker := exampleLocker(pglock.WithObserver(&pglock.Observer{
		Acquired: func(_ context.Context, e pglock.AcquiredInfo) context.Context {
			fmt.Println("acquired", e.Keys[0], e.Source)
			return nil
		},
		Released: func(_ context.Context, e pglock.ReleasedInfo) { fmt.Println("released", e.Keys[0]) },
	}))
	defer locker.Close(ctx)
	err := locker.Do(ctx, pglock.NewKey("a"), func(context.Context, *pglock.Lock) error { return nil })
	fmt.Println(err)
	// Output:
	// acquired a free
	// released a
	// <nil>
}
