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

// waiters measures the load of the server while many goroutines of one process wait for keys that another client
// holds.
func waiters(ctx context.Context, l *lab) (_ []report.Line, err error) {
	count, keys := min(10_000, l.most), min(1_000, l.most)
	holder, err := l.plainConns(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	//pglock:allow the limit that pglock is measured beside
	const lockAll = "SELECT count(pg_advisory_lock(k)) FROM generate_series(1, $1) AS k"
	if _, err := holder[0].Exec(ctx, lockAll, keys); err != nil {
		return nil, err
	}
	locker, err := l.locker(ctx, nil, pglock.WithMaxHeld(2*count))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	c := startWaiters(ctx, locker, count, keys)
	defer func() { err = errors.Join(err, c.leave()) }()
	if err := until(ctx, func() bool { return locker.Stats().Waiting == count }); err != nil {
		return nil, fmt.Errorf("%d of %d wait: %w", locker.Stats().Waiting, count, err)
	}
	return l.watchWaiters(ctx, count)
}

// watchWaiters waits some seconds for the last waiters to settle, and then measures for some seconds.
func (l *lab) watchWaiters(ctx context.Context, count int) ([]report.Line, error) {
	const mostBusy, most = 5, 10
	if err := pause(ctx, l.watch/3); err != nil {
		return nil, err
	}
	server, client, err := l.busyDuring(ctx, l.watch)
	if err != nil {
		return nil, err
	}
	connections, err := l.connections(ctx, count, most)
	line := report.Line{What: "10,000 waiters: server CPU", Ours: report.Figure{Value: server, Unit: report.Percent}}
	return []report.Line{
		line.Aim(report.Below, mostBusy),
		{What: "  client CPU", Ours: report.Figure{Value: client, Unit: report.Percent}},
		connections,
	}, err
}

// waiterGroup is a group of goroutines that wait for locks they will not get.
type waiterGroup struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu  sync.Mutex
	err error // error of a goroutine that got its lock, or gave up
}

// startWaiters makes count goroutines wait, for the keys in turn.
func startWaiters(ctx context.Context, locker *pglock.Locker, count, keys int) *waiterGroup {
	ctx, cancel := context.WithCancel(ctx)
	c := &waiterGroup{cancel: cancel}
	for i := range count {
		c.group.Go(func() {
			key := pglock.Int64Key(int64(i%keys) + 1)
			//pglock:allow it is never granted
			switch _, err := locker.Lock(ctx, key); {
			case err == nil:
				c.fail(fmt.Errorf("%v was granted, which another client holds", key))
			case !errors.Is(err, context.Canceled):
				c.fail(err)
			}
		})
	}
	return c
}

func (c *waiterGroup) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// leave ends the waits, and returns the error of one of them, if any.
func (c *waiterGroup) leave() error {
	c.cancel()
	c.group.Wait()
	return c.err
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
