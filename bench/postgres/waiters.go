package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// waiters measures what the server does while many goroutines of one process wait for keys that another client holds.
func waiters(ctx context.Context, l *lab) (_ []report.Line, err error) {
	const (
		count, keys = 10_000, 1_000
		settle      = 2 * time.Second
		watch       = 6 * time.Second
	)
	holder, err := l.plainConns(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	if _, err := holder[0].Exec(ctx, "SELECT count(pg_advisory_lock(k)) FROM generate_series(1, $1) AS k", keys); err != nil {
		return nil, err
	}
	locker, err := l.locker(ctx, nil, pglock.WithMaxHeld(2*count))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()

	waiting, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	unexpected := make(chan error, count)
	for i := range count {
		group.Go(func() {
			_, err := locker.Lock(waiting, pglock.Int64Key(int64(i%keys)+1))
			if waiting.Err() == nil {
				unexpected <- fmt.Errorf("a waiter did not wait: %w", err)
			}
		})
	}
	if err := until(ctx, func() bool { return locker.Stats().Waiting == count || len(unexpected) > 0 }); err != nil {
		return nil, fmt.Errorf("%d of %d wait: %w", locker.Stats().Waiting, count, err)
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	server, client, err := l.busyDuring(ctx, watch)
	if err != nil {
		return nil, err
	}
	connections, err := l.connections(ctx, count, 10)
	if err != nil {
		return nil, err
	}
	select {
	case err := <-unexpected:
		return nil, err
	default:
	}
	line := report.Line{What: "10,000 waiters: server CPU", Ours: report.Figure{Value: server, Unit: report.Percent}}
	return []report.Line{
		line.Aim(report.Below, 5),
		{What: "  client CPU", Ours: report.Figure{Value: client, Unit: report.Percent}},
		connections,
	}, nil
}

// busyDuring watches for d, and returns how busy the server and this process were, in percent of a core.
func (l *lab) busyDuring(ctx context.Context, d time.Duration) (server, client float64, err error) {
	begin := time.Now()
	before, err := l.usage()
	if err != nil {
		return 0, 0, err
	}
	if err := pause(ctx, d); err != nil {
		return 0, 0, err
	}
	after, err := l.usage()
	spent, wall := after.since(before), time.Since(begin).Seconds()
	return 100 * spent.server.Seconds() / wall, 100 * spent.client.Seconds() / wall, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// until waits for a condition, for at most a minute.
func until(ctx context.Context, reached func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !reached() {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
