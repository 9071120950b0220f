package rowlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

const shortLease = 5 * time.Second

// fill keeps n connections of a pool in transactions until the test ends, or empty is called.
func fill(t *testing.T, pool *pgxpool.Pool, n int) (empty func()) {
	t.Helper()
	var open []pgx.Tx
	for range n {
		tx := begin(t, pool, pgx.TxOptions{})
		_, err := tx.Exec(t.Context(), "SELECT 1") // from here on it has a server connection of a pooler
		must.Succeed(t, err)
		open = append(open, tx)
	}
	return func() {
		for _, tx := range open {
			must.Succeed(t, tx.Rollback(t.Context()))
		}
	}
}

// staysHeld checks that a lock is not lost for three leases.
func staysHeld(t *testing.T, held *pglock.Lock) {
	t.Helper()
	select {
	case <-held.Done():
		t.Errorf("the lock was lost: %v", held.Err())
	case <-time.After(3 * shortLease):
	}
	must.Succeed(t, held.Verify(t.Context()))
}

func limited(t *testing.T, connString string, most int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(connString + "&default_query_exec_mode=exec")
	must.Succeed(t, err)
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// PgBouncer has no code of its own for what it denies.
func TestWhatAPoolerDeniesIsNoOutage(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, change := range map[string]func(*pgx.ConnConfig){
		"database": func(c *pgx.ConnConfig) { c.Database = "no such" },
		"role":     func(c *pgx.ConnConfig) { c.User = "no such" },
		"password": func(c *pgx.ConnConfig) { c.Password = "wrong" },
		"setting":  func(c *pgx.ConnConfig) { c.RuntimeParams["work_mem"] = "64kB" },
	} {
		config, err := pgxpool.ParseConfig(through)
		must.Succeed(t, err)
		change(config.ConnConfig)
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		_, err = open(t, pool).Lock(ctx, key)
		if !errors.Is(err, pglock.ErrDenied) {
			t.Errorf("another %s: %v", what, err)
		}
	}
}

func TestFullAPoolOfTheApplicationCostsNoLock(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	pool := limited(t, testenv.PgBouncer(t, db, testenv.TransactionPooling), 2)
	held := lock(t, open(t, pool, pglock.WithLease(shortLease)))
	fill(t, pool, 2)
	staysHeld(t, held)
	unlock(t, held)
}
