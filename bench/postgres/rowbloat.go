package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rowBloat measures how large the tables are after 1,000,000 pairs on 10,000 keys, and how fast the last of them are: without
// and with a snapshot in the same database that is older than all of them, so that no row version can be removed. A
// snapshot makes everything slower, so it ends after some minutes, whatever was done until then.
func rowBloat(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
	pairs, keys := min(1_000_000, 100*l.most), min(10_000, l.most)
	without, err := r.grow(ctx, pairs, keys, "without a snapshot")
	if err != nil {
		return nil, err
	}
	if _, err := r.admin.Exec(ctx, "VACUUM FULL pglock.leases"); err != nil {
		return nil, err
	}
	old, err := pgx.Connect(ctx, r.server.ConnString(pgserver.Superuser))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, old.Close(ctx)) }()
	if _, err := old.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
		return nil, err
	}
	with, err := r.grow(ctx, pairs, keys, "with an old snapshot")
	return append(without, with...), err
}

const growAtMost = 5 * time.Minute

// grow locks and unlocks keys, and measures the result.
func (r *rowLab) grow(ctx context.Context, pairs, keys int, what string) (_ []report.Line, err error) {
	locker, err := r.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	goroutines := min(512, keys)
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	began := time.Now()
	var last atomic.Int64 // nanoseconds of the last tenth
	for worker := range goroutines {
		each := keys / goroutines
		workers.Go(func() {
			for time.Since(began) < growAtMost && failed.Load() == nil {
				n := done.Add(1)
				if n > int64(pairs) {
					return
				}
				if n == int64(pairs)*9/10 {
					last.Store(int64(time.Since(began)))
				}
				lock, err := locker.Lock(ctx, pglock.Int64Key(int64(worker*each+rand.IntN(each))))
				if err == nil {
					err = lock.Unlock(ctx)
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	workers.Wait()
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	took := time.Since(began)
	made := min(done.Load(), int64(pairs))
	rate := float64(made) / took.Seconds()
	if last.Load() > 0 {
		rate = float64(pairs) / 10 / (took - time.Duration(last.Load())).Seconds()
	}
	size, lookUp, err := r.sizeAndLookUp(ctx, keys)
	return []report.Line{
		{What: what, Ours: report.Figure{Value: float64(made), Unit: report.Count}},
		rateOf("  pairs in the end", rate),
		{What: fmt.Sprintf("  size of %d locks", keys), Ours: report.Figure{Value: size, Unit: report.Bytes}},
		timeOf("  a look-up", lookUp),
	}, err
}

// sizeAndLookUp returns the size of the table of locks with its index, and how long it takes to find a lock.
func (r *rowLab) sizeAndLookUp(ctx context.Context, keys int) (size, seconds float64, err error) {
	if err := r.admin.QueryRow(ctx, "SELECT pg_total_relation_size('pglock.leases')").Scan(&size); err != nil {
		return 0, 0, err
	}
	var times contest.Series
	for range 200 {
		began := time.Now()
		_, err := r.admin.Exec(ctx, "SELECT holder FROM pglock.leases WHERE space = 1 AND number = $1", rand.IntN(keys))
		if err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return size, times.Median(), nil
}
