package peer

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

// PoolSize is how many connections a kind has that needs one for each lock.
const PoolSize = 64

func openPool(ctx context.Context, address string, at Addresses) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = PoolSize
	if at.Dial != nil {
		config.ConnConfig.DialFunc = at.Dial
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// onPostgres opens a Locker, which has connections of its own.
func onPostgres(pooled bool, open func(*pgxpool.Pool, ...pglock.Option) (*pglock.Locker, error)) func(context.Context, Addresses) (*Peer, error) {
	return func(ctx context.Context, at Addresses) (*Peer, error) {
		address := at.Postgres
		if pooled {
			address = at.Pooler
		}
		pool, err := openPool(ctx, address, at)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		l, err := open(pool)
		if err != nil {
			return nil, err
		}
		return ofLocker(l), nil
	}
}

func openTransaction(ctx context.Context, at Addresses) (*Peer, error) {
	return onPool(ctx, at, func(ctx context.Context, pool *pgxpool.Pool, _ int, key int64) (unlock, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if err := pglock.LockTx(ctx, tx, pglock.Int64Key(key)); err != nil {
			return nil, errors.Join(err, tx.Rollback(ctx))
		}
		return tx.Commit, nil
	})
}

type unlock = func(context.Context) error

func onPool(
	ctx context.Context, at Addresses, lock func(ctx context.Context, pool *pgxpool.Pool, worker int, key int64) (unlock, error),
) (*Peer, error) {
	pool, err := openPool(ctx, at.Postgres, at)
	if err != nil {
		return nil, err
	}
	return &Peer{
		Lock:  func(ctx context.Context, worker int, key int64) (unlock, error) { return lock(ctx, pool, worker, key) },
		Close: func() error { pool.Close(); return nil },
	}, nil
}

// The statements of a program that calls PostgreSQL's functions without a library. pgx prepares and keeps them.
const (
	plainLock   = "SELECT pg_advisory_lock($1)"
	plainUnlock = "SELECT pg_advisory_unlock($1)"
)

// openPool takes a connection from a pool for each lock.
func openPlain(ctx context.Context, at Addresses) (*Peer, error) {
	return onPool(ctx, at, func(ctx context.Context, pool *pgxpool.Pool, _ int, key int64) (unlock, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, plainLock, key); err != nil {
			conn.Release()
			return nil, err
		}
		return func(ctx context.Context) error {
			defer conn.Release()
			_, err := conn.Exec(ctx, plainUnlock, key)
			return err
		}, nil
	})
}

// openConnections has a connection for each worker.
func openConnections(_ context.Context, at Addresses) (*Peer, error) {
	config, err := pgx.ParseConfig(at.Postgres)
	if err != nil {
		return nil, err
	}
	if at.Dial != nil {
		config.DialFunc = at.Dial
	}
	var conns perWorker[*pgx.Conn]
	return &Peer{
		Lock: func(ctx context.Context, worker int, key int64) (unlock, error) {
			conn, err := conns.get(worker, func() (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) })
			if err != nil {
				return nil, err
			}
			if _, err := conn.Exec(ctx, plainLock, key); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := conn.Exec(ctx, plainUnlock, key)
				return err
			}, nil
		},
		Close: func() error {
			return conns.close(func(conn *pgx.Conn) error { return conn.Close(context.Background()) })
		},
	}, nil
}

const (
	makeTable = `CREATE TABLE IF NOT EXISTS bench_locks (key bigint PRIMARY KEY, holder bigint) WITH (fillfactor = 50)`
	lockRow   = `INSERT INTO bench_locks AS l (key, holder) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET holder = $2 WHERE l.holder IS NULL`
	unlockRow = "UPDATE bench_locks SET holder = NULL WHERE key = $1 AND holder = $2"
)

// openTable sends a statement with a commit for each lock and unlock through a pooler. Its locks are free.
func openTable(ctx context.Context, at Addresses) (*Peer, error) {
	config, err := pgxpool.ParseConfig(at.Pooler)
	if err != nil {
		return nil, err
	}
	config.MaxConns = PoolSize
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, makeTable); err != nil {
		pool.Close()
		return nil, err
	}
	return &Peer{
		Lock: func(ctx context.Context, worker int, key int64) (unlock, error) {
			if _, err := pool.Exec(ctx, lockRow, key, worker); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := pool.Exec(ctx, unlockRow, key, worker)
				return err
			}, nil
		},
		Close: func() error { pool.Close(); return nil },
	}, nil
}
