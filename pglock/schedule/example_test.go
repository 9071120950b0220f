package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// exampleJob returns a job on the examples' database, which has schema pglock, and what closes its servers.
func exampleJob(ctx context.Context, name string) (job *schedule.Job, pool *pgxpool.Pool, end func()) {
	pool, err := pgxpool.New(ctx, testenv.ForExamples().ConnString())
	if err != nil {
		log.Fatal(err)
	}
	if err := migrations.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	locker, err := pglock.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	job, err = schedule.New(locker, pglock.NewKey(name))
	if err != nil {
		log.Fatal(err)
	}
	return job, pool, func() {
		if err := locker.Close(ctx); err != nil {
			log.Print(err)
		}
		pool.Close()
	}
}

// However many processes call Run for one due time, one of them runs the function.
func ExampleJob_Run() {
	ctx := context.Background()
	job, _, end := exampleJob(ctx, "report")
	defer end()

	hourly, err := schedule.Every(time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	due := hourly.Next(time.Now().Add(-time.Hour)) // the last full hour, the same in every process
	for range 3 {
		err := job.Run(ctx, due, func(ctx context.Context, _ *pglock.Lock) error {
			of, _ := schedule.Due(ctx)
			fmt.Println("the report of the last full hour:", of.Equal(due))
			return nil
		})
		fmt.Println("done before:", errors.Is(err, pglock.ErrDone))
	}
	// Output:
	// the report of the last full hour: true
	// done before: false
	// done before: true
	// done before: true
}

// The writes of the job and the record that it ran commit together.
func ExampleJob_RunTx() {
	ctx := context.Background()
	job, pool, end := exampleJob(ctx, "interest")
	defer end()
	if _, err := pool.Exec(ctx, "CREATE TABLE accounts (cents bigint); INSERT INTO accounts VALUES (100)"); err != nil {
		log.Fatal(err)
	}

	due := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	for range 2 {
		err := job.RunTx(ctx, pool, due, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
			_, err := tx.Exec(ctx, "UPDATE accounts SET cents = cents + 5")
			return err
		})
		if err != nil && !errors.Is(err, pglock.ErrDone) {
			log.Fatal(err)
		}
	}
	var cents int
	err := pool.QueryRow(ctx, "SELECT cents FROM accounts").Scan(&cents)
	fmt.Println(cents, err)
	// Output: 105 <nil>
}

func ExampleEvery() {
	quarterly, err := schedule.Every(15 * time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, time.November, 1, 9, 20, 0, 0, time.UTC)
	fmt.Println(quarterly.Next(now).Format(time.TimeOnly))
	// Output: 09:30:00
}
