package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// exampleLimiter is on the examples' database, which has schema pglock.
func exampleLimiter(ctx context.Context, name string) (limiter *ratelimit.Limiter, pool *pgxpool.Pool) {
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	if err := migrations.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	limiter, err = ratelimit.New(pool, pglock.NewKey(name), ratelimit.WithTimeout(time.Minute)) // for a busy machine
	if err != nil {
		log.Fatal(err)
	}
	return limiter, pool
}

func ExampleLimiter_Allow() {
	ctx := context.Background()
	logins, pool := exampleLimiter(ctx, "login")
	defer pool.Close()
	limit := ratelimit.Limit{Count: 2, Per: time.Hour}
	for _, address := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		decision, err := logins.Allow(ctx, address, limit)
		if errors.Is(err, pglock.ErrNotAcquired) {
			fmt.Println(address, "is refused for", decision.RetryAfter.Round(time.Hour/2)) // Retry-After
			continue
		}
		fmt.Println(address, "may log in,", decision.Remaining, "left", err)
	}
	// Output:
	// 192.0.2.1 may log in, 1 left <nil>
	// 192.0.2.1 may log in, 0 left <nil>
	// 192.0.2.1 is refused for 30m0s
	// 192.0.2.2 may log in, 1 left <nil>
}

// Wait paces work. It refuses at once when the turn would come too late.
func ExampleLimiter_Wait() {
	ctx := context.Background()
	mails, pool := exampleLimiter(ctx, "mails")
	defer pool.Close()
	limit := ratelimit.Limit{Count: 1, Per: time.Hour}
	fmt.Println(mails.Wait(ctx, "", limit))
	err := mails.Wait(ctx, "", limit, pglock.MaxWait(time.Minute))
	fmt.Println(errors.Is(err, pglock.ErrNotAcquired))
	// Output:
	// <nil>
	// true
}
