package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rowHandoff measures the time from the release by one Locker to the grant to another that waits: of locks that were held
// for long, at any moment between two looks of the waiter, and of a lock that changes hands all the time.
func rowHandoff(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
	var lockers [2]*pglock.Locker
	for i := range lockers {
		if lockers[i], err = r.locker(ctx, nil); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocker(lockers[i])) }()
	}
	held, err := longHeld(ctx, lockers, min(200, l.most), l.watch)
	if err != nil {
		return nil, err
	}
	brief, err := brieflyHeld(ctx, lockers, min(200, l.most))
	if err != nil {
		return nil, err
	}
	slices.Sort(held)
	return []report.Line{
		timeOf("after a long hold, median", held.Median()).Aim(report.AtMost, 0.3),
		timeOf("  99th percentile", held[len(held)*99/100]).Aim(report.AtMost, 1),
		timeOf("after a brief hold, median", brief.Median()),
	}, nil
}

func timeOf(what string, seconds float64) report.Line {
	return report.Line{What: what, Ours: report.Figure{Value: seconds, Unit: report.Seconds}}
}

// longHeld has n locks held for so long that the waiters look rarely, and then released at random moments.
func longHeld(ctx context.Context, lockers [2]*pglock.Locker, n int, long time.Duration) (contest.Series, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	held := make([]*pglock.Lock, n)
	for i := range held {
		lock, err := lockers[0].Lock(ctx, pglock.Int64Key(int64(i)))
		if err != nil {
			return nil, err
		}
		held[i] = lock
	}
	granted := make([]time.Time, n)
	var waiters sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range held {
		waiters.Go(func() {
			lock, err := lockers[1].Lock(ctx, pglock.Int64Key(int64(i)))
			granted[i] = time.Now()
			if err == nil {
				err = lock.Unlock(ctx)
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	released := make([]time.Time, n)
	err := until(ctx, func() bool { return lockers[1].Stats().Waiting == n })
	if err == nil {
		err = pause(ctx, long)
	}
	for i, lock := range held {
		waiters.Go(func() {
			_ = pause(ctx, rand.N(2*time.Second))
			released[i] = time.Now()
			if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
				failed.Store(&err)
			}
		})
	}
	waiters.Wait()
	if e := failed.Load(); e != nil {
		err = errors.Join(err, *e)
	}
	var times contest.Series
	for i := range released {
		times = append(times, granted[i].Sub(released[i]).Seconds())
	}
	return times, err
}

// brieflyHeld passes a lock back and forth as soon as the other one waits for it.
func brieflyHeld(ctx context.Context, lockers [2]*pglock.Locker, n int) (times contest.Series, err error) {
	key := pglock.NewKey("back and forth")
	lock, err := lockers[0].Lock(ctx, key)
	for i := 1; i <= n && err == nil; i++ {
		next := lockers[i%2]
		got := make(chan error, 1)
		var following *pglock.Lock
		var at time.Time
		go func() {
			var err error
			following, err = next.Lock(ctx, key)
			at = time.Now()
			got <- err
		}()
		if err := until(ctx, func() bool { return next.Stats().Waiting == 1 }); err != nil {
			return nil, err
		}
		released := time.Now()
		if err = errors.Join(lock.Unlock(ctx), <-got); err == nil {
			times = append(times, at.Sub(released).Seconds())
			lock = following
		}
	}
	if err != nil {
		return nil, err
	}
	return times, lock.Unlock(ctx)
}

// rowWaiters measures what 1,000 waiters on a key cost that is held elsewhere.
func rowWaiters(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
	count := min(1_000, l.most)
	holder, err := r.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(holder)) }()
	held, err := holder.Lock(ctx, pglock.Int64Key(1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, held.Unlock(ctx)) }()
	var sent atomic.Int64
	locker, err := r.locker(ctx, &sent)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	c := startWaiters(ctx, locker, count, 1)
	defer func() { err = errors.Join(err, c.leave()) }()
	if err := until(ctx, func() bool { return locker.Stats().Waiting == count }); err != nil {
		return nil, err
	}
	if err := pause(ctx, l.watch); err != nil { // until they look rarely
		return nil, err
	}
	defer l.quiet()()
	before, began := sent.Load(), time.Now()
	server, client, err := r.busy(ctx, 5*l.watch) // two leases, of six renewals
	perSecond := float64(sent.Load()-before) / time.Since(began).Seconds()
	return []report.Line{
		rateOf("1,000 waiters: statements", perSecond).Aim(report.AtMost, 2),
		{What: "  server CPU", Ours: report.Figure{Value: server, Unit: report.Percent}},
		{What: "  client CPU", Ours: report.Figure{Value: client, Unit: report.Percent}},
	}, err
}

// rowRenewal measures what 10,000 held locks cost.
func rowRenewal(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
	count := min(10_000, l.most)
	var sent atomic.Int64
	locker, err := r.locker(ctx, &sent)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	keys := make([]pglock.Key, count)
	for i := range keys {
		keys[i] = pglock.Int64Key(int64(i))
	}
	held, err := locker.LockAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, held.Unlock(ctx)) }()
	defer l.quiet()()
	before := sent.Load()
	server, client, err := r.busy(ctx, 5*l.watch)
	statements := sent.Load() - before
	if err != nil {
		return nil, err
	}
	renewal, err := r.renewalTime(ctx)
	return []report.Line{
		report.Line{
			What: fmt.Sprintf("%d locks held: server CPU", count), Ours: report.Figure{Value: server, Unit: report.Percent},
		}.Aim(report.Below, 1),
		{What: "  client CPU", Ours: report.Figure{Value: client, Unit: report.Percent}},
		{
			What: fmt.Sprintf("  statements in %v", 5*l.watch),
			Ours: report.Figure{Value: float64(statements), Unit: report.Count},
		},
		timeOf("  a renewal", renewal),
	}, err
}

// quiet stops the timer of the lab, which costs some per cent of a core, where no times are compared.
func (l *lab) quiet() (again func()) {
	l.timer.Stop()
	return func() { l.timer.Reset(timerInterval) }
}

// renewalTime is how long the server takes for a renewal of a holder, with its commit.
func (r *rowLab) renewalTime(ctx context.Context) (float64, error) {
	var times contest.Series
	for range 20 {
		began := time.Now()
		if _, err := r.admin.Exec(ctx, "SELECT pglock.lease_renew(id, 15000) FROM pglock.holders WHERE NOT ended"); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return times.Median(), nil
}
