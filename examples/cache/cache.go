package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

const schema = `CREATE TABLE IF NOT EXISTS cache (name text PRIMARY KEY, value text NOT NULL, expires timestamptz NOT NULL)`

// cache keeps values of an origin in a table that all processes share.
type cache struct {
	pool   *pgxpool.Pool
	locker *pglock.Locker
	keep   time.Duration
}

type origin func(ctx context.Context, name string) (string, error)

// get returns the value of name. If it is not in the cache, one caller of all processes asks the origin, and the others
// wait for what it finds. If that caller fails, or its process dies, the next one asks.
func (c *cache) get(ctx context.Context, name string, ask origin) (value string, err error) {
	value, found, err := c.look(ctx, name)
	if found || err != nil {
		return value, err
	}
	err = c.locker.Do(ctx, pglock.NewKey("cache:"+name), func(ctx context.Context, _ *pglock.Lock) error {
		// While this caller waited, the one before it has probably loaded the value.
		if value, found, err = c.look(ctx, name); found || err != nil {
			return err
		}
		if value, err = ask(ctx, name); err != nil {
			return err
		}
		return c.store(ctx, name, value)
	})
	return value, err
}

// refresh loads a value anew while the old one is still served. If another caller is already doing so, it does nothing.
func (c *cache) refresh(ctx context.Context, name string, ask origin) error {
	err := c.locker.TryDo(ctx, pglock.NewKey("cache:"+name), func(ctx context.Context, _ *pglock.Lock) error {
		value, err := ask(ctx, name)
		if err != nil {
			return err
		}
		return c.store(ctx, name, value)
	})
	if errors.Is(err, pglock.ErrNotAcquired) {
		return nil
	}
	return err
}

// getWithoutLock is what each cache does at first: every caller that finds nothing asks the origin.
func (c *cache) getWithoutLock(ctx context.Context, name string, ask origin) (string, error) {
	value, found, err := c.look(ctx, name)
	if found || err != nil {
		return value, err
	}
	if value, err = ask(ctx, name); err != nil {
		return "", err
	}
	return value, c.store(ctx, name, value)
}

func (c *cache) look(ctx context.Context, name string) (value string, found bool, err error) {
	err = c.pool.QueryRow(ctx, "SELECT value FROM cache WHERE name = $1 AND expires > now()", name).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, err
}

func (c *cache) store(ctx context.Context, name, value string) error {
	_, err := c.pool.Exec(ctx, `INSERT INTO cache VALUES ($1, $2, now() + $3 * interval '1 second')
		ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, expires = EXCLUDED.expires`, name, value, c.keep.Seconds())
	return err
}
