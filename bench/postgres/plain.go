package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// The statements of whoever uses PostgreSQL's functions without a library. pgx prepares and keeps them.
const (
	plainLock   = "SELECT pg_advisory_lock($1)"
	plainUnlock = "SELECT pg_advisory_unlock($1)"
)

// distinctKey is the i-th key of a worker, different from all of the other workers.
func distinctKey(worker, i int) int64 { return int64(worker+1)<<32 | int64(i%1024) }

// plainConns are connections that are held for as long as a row takes, one for each worker.
type plainConns []*pgx.Conn

func (l *lab) plainConns(ctx context.Context, n int, dial dialFunc) (conns plainConns, err error) {
	config, err := l.poolConfig(n, dial)
	if err != nil {
		return nil, err
	}
	for range n {
		conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
		if err != nil {
			return nil, errors.Join(err, conns.close())
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func (c plainConns) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, conn := range c {
		err = errors.Join(err, conn.Close(ctx))
	}
	return err
}

// pairs locks and unlocks key(worker, i) on the worker's connection.
func (c plainConns) pairs(key func(worker, i int) int64) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		return plainPair(ctx, c[worker], key(worker, i))
	}
}

func plainPair(ctx context.Context, conn *pgx.Conn, key int64) error {
	if _, err := conn.Exec(ctx, plainLock, key); err != nil {
		return fmt.Errorf("lock %d: %w", key, err)
	}
	if _, err := conn.Exec(ctx, plainUnlock, key); err != nil {
		return fmt.Errorf("unlock %d: %w", key, err)
	}
	return nil
}

// pooledPairs takes a connection from the pool for each lock, and gives it back after the unlock.
func pooledPairs(pool *pgxpool.Pool) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return plainPair(ctx, conn.Conn(), distinctKey(worker, i))
	}
}

// plainPool opens a pool and all of its connections.
func (l *lab) plainPool(ctx context.Context, size int, dial dialFunc) (*pgxpool.Pool, error) {
	config, err := l.poolConfig(size, dial)
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}
