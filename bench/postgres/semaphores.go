package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

const (
	permits         = 10
	permitLockers   = 4 // each represents a process, and meets the others only on the server
	permitTakers    = 64
	permitPollEvery = 10 * time.Millisecond
)

// taker takes a permit, calls work, and releases the permit. taken is false if there was none, and the caller should try
// again.
type taker func(ctx context.Context, work func()) (taken bool, err error)

// permitContest is one way to limit concurrency, with the server's processor time that it has used.
type permitContest struct {
	lab    *lab
	takers []taker
	hold   time.Duration
	cpu    contest.Series // seconds of the server for each permit
	inUse  contest.Series // percent of the permits

	held atomic.Int64 // nanoseconds, of all permits together
}

// work is done under a permit.
func (c *permitContest) work() {
	start := time.Now()
	time.Sleep(c.hold)
	c.held.Add(int64(time.Since(start)))
}

// leastInUse is the percentage of the permits that counts as all that can be: one is idle between two takers.
const leastInUse = 95

// permitWarmUp is how long takers run before the measurement: idle sessions have to be dialled again.
const permitWarmUp = 300 * time.Millisecond

// measure returns how many permits were taken per second.
func (c *permitContest) measure(ctx context.Context, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, permitWarmUp+d)
	defer cancel()
	var taken atomic.Int64
	errs := make([]error, permitTakers)
	var wg sync.WaitGroup
	for i := range permitTakers {
		take := c.takers[i%len(c.takers)]
		wg.Go(func() {
			for ctx.Err() == nil {
				ok, err := take(ctx, c.work)
				if err != nil && ctx.Err() == nil {
					errs[i] = err
					return
				}
				if ok {
					taken.Add(1)
				}
			}
		})
	}
	time.Sleep(permitWarmUp)
	before, err := c.lab.usage()
	start, takenBefore, heldBefore := time.Now(), taken.Load(), c.held.Load()
	<-ctx.Done()
	took, n, held := time.Since(start), float64(max(taken.Load()-takenBefore, 1)), float64(c.held.Load()-heldBefore)
	after, afterErr := c.lab.usage()
	wg.Wait()
	if err := errors.Join(append(errs, err, afterErr)...); err != nil {
		return 0, err
	}
	c.cpu = append(c.cpu, after.since(before).server.Seconds()/n)
	c.inUse = append(c.inUse, 100*held/permits/float64(took))
	return n / took.Seconds(), nil
}

// semaphores compares a semaphore with a table of slots that are locked with SKIP LOCKED and polled.
func semaphores(ctx context.Context, l *lab) (lines []report.Line, err error) {
	ours, closeOurs, err := l.semaphoreTakers(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeOurs()) }()
	table, pool, err := l.tableTaker(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	for _, hold := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		a := &permitContest{lab: l, takers: ours, hold: hold}
		b := &permitContest{lab: l, takers: []taker{table}, hold: hold}
		plan := contest.Plan{Rounds: max(1, l.plan.Rounds/2), Slice: 4 * l.plan.Slice} // processes take turns of 20 ms
		series, err := contest.Run(ctx, plan,
			contest.Contestant{Name: "pglock", Measure: a.measure}, contest.Contestant{Name: "table", Measure: b.measure})
		if err != nil {
			return nil, err
		}
		permit := compared(fmt.Sprintf("permits held for %v, against a table", hold), report.PerSecond, series[0], series[1])
		cpu := compared("the server's processor time for each", report.Seconds, a.cpu, b.cpu)
		if hold > 0 {
			permit = permit.Aim(report.AtLeast, 1)
		}
		lines = append(lines, permit, cpu)
		if hold > 0 {
			lines = append(lines, report.Line{
				What: "permits in use",
				Ours: report.Figure{Value: a.inUse.Median(), Unit: report.Percent},
				Peer: report.Figure{Value: b.inUse.Median(), Unit: report.Percent},
			}.Aim(report.AtLeast, leastInUse))
		}
	}
	return lines, nil
}

func (l *lab) semaphoreTakers(ctx context.Context) (takers []taker, closeAll func() error, err error) {
	var lockers []*pglock.Locker
	closeAll = func() (err error) {
		for _, locker := range lockers {
			err = errors.Join(err, closeLocker(locker))
		}
		return err
	}
	for range permitLockers {
		locker, err := l.locker(ctx, nil)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		lockers = append(lockers, locker)
		sem, err := semaphore.New(locker, pglock.NewKey("bench"), permits)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		takers = append(takers, func(ctx context.Context, work func()) (bool, error) {
			p, err := sem.Acquire(ctx)
			if err != nil {
				return false, err
			}
			work()
			return true, p.Release(ctx)
		})
	}
	return takers, closeAll, nil
}

// tableTaker takes a row of the table that is not locked. If there is none it tries again after a
// pause.
func (l *lab) tableTaker(ctx context.Context) (taker, *pgxpool.Pool, error) {
	config, err := l.poolConfig(permitTakers, nil)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS slots AS SELECT generate_series(1, $1::int) AS id", permits)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return func(ctx context.Context, work func()) (taken bool, err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var id int
			err := tx.QueryRow(ctx, "SELECT id FROM slots LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&id)
			if err == nil {
				taken = true
				work()
			}
			return err
		})
		if errors.Is(err, pgx.ErrNoRows) {
			time.Sleep(permitPollEvery)
			return false, nil
		}
		return taken, err
	}, pool, nil
}
