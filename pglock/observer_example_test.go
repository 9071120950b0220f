package pglock_test

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock"
)

func ExampleWithObserver() {
	ctx := context.Background()
	locker := exampleLocker(pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		fmt.Println(e.Type, e.Keys[0])
	}))
	defer locker.Close(ctx)
	err := locker.Do(ctx, pglock.NewKey("a"), func(context.Context, *pglock.Lock) error { return nil })
	fmt.Println(err)
	// Output:
	// acquired a
	// released a
	// <nil>
}
