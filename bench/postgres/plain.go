//pglock:allow pglock is measured beside locks that are taken by hand

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

// The statements of a program that calls PostgreSQL's functions without a library. pgx prepares and keeps them.
const (
	plainLock   = "SELECT pg_advisory_lock($1)"
	plainUnlock = "SELECT pg_advisory_unlock($1)"
)

// keyFunc returns the i-th key that a worker locks.
type keyFunc func(worker, i int) int64

// distinctKey is different from all keys of the other workers.
func distinctKey(worker, i int) int64 { return int64(worker+1)<<32 | int64(i%1024) }

// theKey is the same for all workers.
func theKey(int, int) int64 { return 7 }

// plainConns are connections that are held for a whole row, one for each worker.
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

// pairs locks and unlocks on the worker's connection.
func (c plainConns) pairs(key keyFunc) contest.Work {
	return func(ctx context.Context, worker, i int) error { return plainPair(ctx, c[worker], key(worker, i)) }
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

// plainPool is a pool that the workers share.
type plainPool struct{ *pgxpool.Pool }

func (l *lab) plainPool(ctx context.Context, size int, dial dialFunc) (plainPool, error) {
	config, err := l.poolConfig(size, dial)
	if err != nil {
		return plainPool{}, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return plainPool{pool}, err
}

// pairs takes a connection from the pool for each lock, and gives it back after the unlock.
func (p plainPool) pairs(key keyFunc) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		conn, err := p.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return plainPair(ctx, conn.Conn(), key(worker, i))
	}
}

func (p plainPool) close() error {
	p.Close()
	return nil
}
