package rowlock_test

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
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// The pool may lead to a pooler of transactions.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil { // or "pglock migrate up", when the program is deployed
		log.Fatal(err)
	}

	locker, err := rowlock.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	err = locker.Do(ctx, pglock.NewKey("nightly-report"), func(ctx context.Context, lock *pglock.Lock) error {
		_, err := locker.TryLock(ctx, pglock.NewKey("nightly-report"))
		fmt.Println("not twice:", errors.Is(err, pglock.ErrNotAcquired))
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return lock.GuardTx(ctx, tx) // what tx writes then cannot be stale
		})
	})
	fmt.Println(err)
	// Output:
	// not twice: true
	// <nil>
}
