package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

// urlVariable passes the database's address to a worker. On a command line all users of the machine could see it.
const urlVariable = "PGLOCK_DEMO_URL"

const additions = 40

// worker is one of several processes that do the same.
func worker(ctx context.Context, part string) (err error) {
	pool, err := pgxpool.New(ctx, os.Getenv(urlVariable))
	if err != nil {
		return err
	}
	defer pool.Close()
	if part == "deploy" {
		return deploy(ctx, pool)
	}
	for range additions {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return add(ctx, tx, part == "add-locked") }); err != nil {
			return err
		}
	}
	return nil
}

func add(ctx context.Context, tx pgx.Tx, locked bool) error {
	if locked {
		if err := pglock.LockTx(ctx, tx, visitsKey); err != nil {
			return err
		}
	}
	var n int64
	if err := tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond) // it computes
	_, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1)
	return err
}

func deploy(ctx context.Context, pool *pgxpool.Pool) (err error) {
	locker, err := pglock.New(pool, pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	return locker.Do(ctx, deployKey, func(context.Context, *pglock.Lock) error {
		_, err := fmt.Printf("  process %d deploys, alone\n", os.Getpid())
		return err
	})
}
