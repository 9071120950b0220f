package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/monitor"
)

const (
	holders = 300 // sessions that share the locks
	waiters = 200 // sessions that wait, in ten queues
	queues  = 10

	backendTarget = 0.05 // seconds of processor time, which depend less on other load than the client's
)

// snapshot measures what a snapshot of a busy server costs.
func snapshot(ctx context.Context, b *bench) (_ []report.Line, err error) {
	locks, waiters := b.size, min(waiters, b.size)
	leave, err := b.fill(ctx, locks, waiters)
	defer func() { err = errors.Join(err, leave()) }()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, b.At.Postgres)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var client, backend contest.Series
	for range 2 * b.plan.Rounds {
		before, err := processorTime(conn.PgConn().PID())
		if err != nil {
			return nil, err
		}
		began := time.Now()
		s, err := monitor.Take(ctx, conn)
		if err != nil {
			return nil, err
		}
		client = append(client, time.Since(began).Seconds())
		if len(s.Locks) != locks || s.BlockersMissing != "" {
			return nil, fmt.Errorf("the snapshot has %d locks, want %d; blockers: %q", len(s.Locks), locks, s.BlockersMissing)
		}
		after, err := processorTime(conn.PgConn().PID())
		if err != nil {
			return nil, err
		}
		backend = append(backend, (after - before).Seconds())
	}
	return []report.Line{
		report.Alone("until Take returns", report.Seconds, client),
		report.Alone("  the server's processor", report.Seconds, backend).Aim(report.AtMost, backendTarget),
	}, nil
}

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

// processorTime is the processor time of a process, from Linux.
func processorTime(pid uint32) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	running, _, _ := strings.Cut(string(text), " ")
	nanoseconds, err := strconv.ParseInt(running, 10, 64)
	return time.Duration(nanoseconds), err
}
