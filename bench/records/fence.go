package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// fence compares a lock with a fencing token to one with a plain nextval, which has fewer round trips and whose numbers
// a crash can bring back. The server flushes to disk, as others do.
func fence(ctx context.Context, l *lab) (lines []report.Line, err error) {
	if err := l.setFsync(ctx, "on"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.setFsync(ctx, "off")) }()
	locker, err := pglock.New(l.pool)
	if err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, locker.Close(closing))
	}()
	var last atomic.Int64
	with := func(number func(context.Context, *pglock.Lock) error) contest.Work {
		return func(ctx context.Context, _, _ int) error {
			lock, err := locker.Lock(ctx, pglock.Int64Key(last.Add(1)))
			if err != nil {
				return err
			}
			return errors.Join(number(ctx, lock), lock.Unlock(ctx))
		}
	}
	ours := with(func(ctx context.Context, lock *pglock.Lock) error { _, err := lock.Fence(ctx); return err })
	plain := with(func(ctx context.Context, _ *pglock.Lock) error {
		_, err := l.pool.Exec(ctx, "SELECT nextval('pglock.fence')")
		return err
	})
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Latency(ours)},
		contest.Contestant{Name: "nextval", Measure: contest.Latency(plain)})
	if err != nil {
		return nil, err
	}
	lines = append(lines, against("lock, Fence, unlock, 1 at a time", report.Seconds, all[0], all[1]))
	for _, workers := range []int{64, 512} {
		all, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "pglock", Measure: contest.Rate(workers, ours)},
			contest.Contestant{Name: "nextval", Measure: contest.Rate(workers, plain)})
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("lock, Fence, unlock, %d at a time", workers)
		lines = append(lines, against(what, report.PerSecond, all[0], all[1]))
	}
	return lines, nil
}

func (l *lab) setFsync(ctx context.Context, value string) error {
	for _, statement := range []string{"ALTER SYSTEM SET fsync = " + value, "SELECT pg_reload_conf()"} {
		if _, err := l.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
