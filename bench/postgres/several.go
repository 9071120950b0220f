package main

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lockAll compares LockAll of 100 keys with 100 Locks by one goroutine, both with their release.
func lockAll(ctx context.Context, l *lab) (_ []report.Line, err error) {
	const n, least = 100, 30
	locker, err := l.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	keys := make([]pglock.Key, n)
	for i := range keys {
		keys[i] = pglock.Int64Key(int64(i))
	}
	together := func(ctx context.Context, _, _ int) error {
		lock, err := locker.LockAll(ctx, keys)
		if err != nil {
			return err
		}
		return lock.Unlock(ctx)
	}
	oneByOne := func(ctx context.Context, _, _ int) error {
		locks := make([]*pglock.Lock, n)
		for i, key := range keys {
			var err error
			if locks[i], err = locker.Lock(ctx, key); err != nil {
				return err
			}
		}
		for _, lock := range locks {
			if err := lock.Unlock(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "LockAll", Measure: contest.Rate(1, together)},
		contest.Contestant{Name: "Lock", Measure: contest.Rate(1, oneByOne)})
	if err != nil {
		return nil, err
	}
	line := compared("LockAll of 100 keys / 100 Locks", report.PerSecond, all[0], all[1])
	return []report.Line{line.Aim(report.AtLeast, least)}, nil
}

// idleWaiter measures what one waiter costs this process while it waits.
func idleWaiter(ctx context.Context, l *lab) (_ []report.Line, err error) {
	const most = 0.1
	holder, err := l.plainConns(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	if _, err := holder[0].Exec(ctx, plainLock, handoffKey); err != nil {
		return nil, err
	}
	locker, err := l.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	waiting, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		//pglock:allow it is never granted
		_, _ = locker.Lock(waiting, pglock.Int64Key(handoffKey))
	}()
	defer func() { leave(); <-left }()
	if err := l.awaitWaiter(ctx); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Second); err != nil { // until the wait has settled
		return nil, err
	}
	l.timer.Stop() // it would dominate the measurement
	defer l.timer.Reset(2 * time.Millisecond)
	_, client, err := l.busyDuring(ctx, l.watch)
	line := report.Line{What: "a waiter that waits: client CPU", Ours: report.Figure{Value: client, Unit: report.Percent}}
	return []report.Line{line.Aim(report.Below, most)}, err
}
