package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// examplePool is a pool on the examples' database, with schema pglock.
func examplePool(ctx context.Context) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	if err := migrations.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	return pool
}

// A message that is delivered twice is handled once.
func ExampleScope_Tx() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	payments, err := once.New(pglock.NewKey("payments"))
	if err != nil {
		log.Fatal(err)
	}

	handle := func(message string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := payments.Tx(ctx, tx, message); err != nil {
				return err
			}
			fmt.Println("handling", message) // writes of tx commit together with the record
			return nil
		})
	}
	for range 2 {
		err := handle("m-17")
		fmt.Println(err == nil, errors.Is(err, pglock.ErrDone))
	}
	// Output:
	// handling m-17
	// true false
	// false true
}

// A request that is repeated gets the answer of the first. With Matching, the same id with other contents is refused.
func ExampleResult() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	orders, err := once.New(pglock.NewKey("orders"))
	if err != nil {
		log.Fatal(err)
	}

	for _, body := range []string{"2 apples", "2 apples", "3 apples"} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			number, replayed, err := once.Result(ctx, tx, orders.Matching([]byte(body)), "request-1", func(pgx.Tx) (int, error) {
				return 1001, nil // the order's number
			})
			if err == nil {
				fmt.Println(number, "replayed:", replayed)
			}
			return err
		})
		if errors.Is(err, once.ErrMismatch) {
			fmt.Println("422: request-1 was another order")
		}
	}
	// Output:
	// 1001 replayed: false
	// 1001 replayed: true
	// 422: request-1 was another order
}
