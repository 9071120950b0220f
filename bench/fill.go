package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	holders = 300 // sessions that share the locks
	waiters = 200 // sessions that wait, in ten queues
	queues  = 10
)

// fill lets sessions hold locks that have names, and others wait for ten of these. They end when leave is called.
func (b *bench) fill(ctx context.Context, locks, waiters int) (leave func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting errgroup.Group
	var conns []*pgx.Conn
	leave = func() error {
		cancel()
		err := waiting.Wait()
		for _, conn := range conns {
			err = errors.Join(err, conn.Close(context.Background()))
		}
		return err
	}
	const register = "SELECT count(pglock.register('job ' || n)) FROM generate_series(0, $1::int - 1) AS n"
	if _, err := b.Pool.Exec(ctx, register, locks); err != nil {
		return leave, err
	}
	for i := range holders + waiters {
		conn, err := pgx.Connect(ctx, b.At.Postgres)
		if err != nil {
			return leave, err
		}
		if i >= holders {
			waiting.Go(func() error {
				_, err := conn.Exec(ctx, "SELECT pg_advisory_lock(pglock.key($1))", fmt.Sprint("job ", i%queues))
				if ctx.Err() != nil {
					return nil
				}
				return err
			})
			continue
		}
		conns = append(conns, conn)
		const hold = "SELECT count(pg_advisory_lock(pglock.key('job ' || n))) FROM generate_series($1::int, $2::int) AS n"
		if _, err := conn.Exec(ctx, hold, i*locks/holders, (i+1)*locks/holders-1); err != nil {
			return leave, err
		}
	}
	for waits := 0; waits < waiters; {
		const count = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
		if err := b.Pool.QueryRow(ctx, count).Scan(&waits); err != nil {
			return leave, err
		}
	}
	return leave, nil
}
