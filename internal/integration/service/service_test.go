// Package service shows a test of a service that uses pglock, on a PostgreSQL server in a container.
package service

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Counter is the service: it counts in a table, one process at a time.
type Counter struct {
	pool   *pgxpool.Pool
	locker *pglock.Locker
}

// Count adds one. It reads and writes in a transaction that the lock guards.
func (c *Counter) Count(ctx context.Context) error {
	return c.locker.Do(ctx, pglock.NewKey("counter"), func(ctx context.Context, lock *pglock.Lock) error {
		return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			if err := lock.GuardTx(ctx, tx); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRow(ctx, "select n from counter").Scan(&n); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "update counter set n = $1", n+1)
			return err
		})
	})
}

// newPool starts PostgreSQL in a container, which ends with the test.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	image := os.Getenv("PGLOCK_TEST_POSTGRES_IMAGE") // such as postgres:17-alpine
	if image == "" {
		t.Skip("PGLOCK_TEST_POSTGRES_IMAGE names no image")
	}
	testcontainers.SkipIfProviderIsNotHealthy(t)
	ctx := t.Context()
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": "test"}),
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("5432/tcp")),
	)
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatal(err)
	}
	address, err := container.PortEndpoint(ctx, "5432/tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, "postgres://postgres:test@"+address+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestCounterLosesNoCount(t *testing.T) {
	pool, ctx := newPool(t), t.Context()
	if _, err := pool.Exec(ctx, "create table counter as select 0 as n"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 { // two Lockers exclude each other as two processes do
		locker, err := pglock.New(pool)
		if err != nil {
			t.Fatal(err)
		}
		defer locker.Close(context.WithoutCancel(ctx))
		counter := &Counter{pool, locker}
		for range 25 {
			wg.Go(func() {
				if err := counter.Count(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	var n int
	if err := pool.QueryRow(ctx, "select n from counter").Scan(&n); err != nil || n != 50 {
		t.Errorf("counted %d of 50: %v", n, err)
	}
}
