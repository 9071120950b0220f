package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// convoy lets Lockers in rows, as of so many processes, contend for one key that each holds for a moment. It shows how many
// are served in a second, how long the lock was free, and what that costs the server.
type convoy struct {
	lockers  int
	pooled   bool          // through PgBouncer in transaction mode, on a pool of ten
	least    float64       // grants in a second
	mostFree time.Duration // 99th percentile; 0 is no target
}

func (c convoy) run(ctx context.Context, b *bench) (lines []report.Line, err error) {
	pool := b.Pool
	if c.pooled {
		pooler, err := pgserver.StartPooler(ctx, pgserver.PoolerOptions{
			Server: b.Pool.Config().ConnConfig, Mode: "transaction", Size: 10,
		})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, pooler.Stop()) }()
		if pool, err = pgxpool.New(ctx, pooler.ConnString()); err != nil {
			return nil, err
		}
		defer pool.Close()
	}
	all, closeAll, err := lockers(ctx, pool, c.lockers, rowlock.New)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	before, err := b.transactions(ctx)
	if err != nil {
		return nil, err
	}
	d := 16 * b.plan.Slice
	turns, err := contend(ctx, all, d)
	if err != nil {
		return nil, err
	}
	after, err := b.transactions(ctx)
	p99 := contest.LongestFree(turns)
	free := report.Alone("  free between two, p99", report.Seconds, contest.Series{p99.Seconds()})
	if c.mostFree > 0 {
		free = free.Aim(report.AtMost, c.mostFree.Seconds())
	}
	cost := report.Alone("  transactions a grant", report.Count, contest.Series{float64(after-before) / float64(len(turns))})
	if !c.pooled {
		cost = cost.Aim(report.AtMost, 8)
	}
	return []report.Line{
		report.Alone(fmt.Sprintf("%d Lockers", c.lockers), report.PerSecond, contest.Series{float64(len(turns)) / d.Seconds()}).
			Aim(report.AtLeast, c.least), free, cost,
	}, err
}

// transactions returns how many have ended. Sessions report theirs with a delay of up to a second.
func (b *bench) transactions(ctx context.Context) (n int64, err error) {
	time.Sleep(1200 * time.Millisecond)
	err = b.Pool.QueryRow(ctx, `SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database`).Scan(&n)
	return n, err
}

// lockers opens so many, each of which has a connection.
func lockers(ctx context.Context, pool *pgxpool.Pool, n int, open func(*pgxpool.Pool, ...pglock.Option) (*pglock.Locker, error), opts ...pglock.Option) (
	all []*pglock.Locker, closeAll func(), err error) {
	closeAll = func() {
		for _, l := range all {
			_ = l.Close(context.WithoutCancel(ctx)) // what was measured does not depend on it
		}
	}
	for i := range n {
		l, err := open(pool, opts...)
		if err == nil {
			all = append(all, l)
			err = l.Do(ctx, pglock.Int64Key(int64(crowdKey+100+i)), func(context.Context, *pglock.Lock) error { return nil }) // it has connections
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
	}
	return all, closeAll, nil
}

// both measures how long a LockAll of two keys waits, each of which has 20 Lockers of its own, in turns: of the time in which
// each of the 21 that want a key has it once.
func both(ctx context.Context, b *bench) ([]report.Line, error) {
	const singles = 20
	all, closeAll, err := lockers(ctx, b.Pool, 2*singles+1, rowlock.New)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	keys := []pglock.Key{pglock.Int64Key(21), pglock.Int64Key(22)}
	d := 32 * b.plan.Slice
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	grants := 0
	for i, l := range all {
		want := keys
		if i < 2*singles {
			want = keys[i%2 : i%2+1]
		}
		group.Go(func() {
			for asked := time.Now(); ; asked = time.Now() {
				lock, lockErr := l.LockAll(ctx, want)
				mu.Lock()
				if len(want) > 1 {
					longest = max(longest, time.Since(asked)) // that of the last one too, which did not end
				}
				mu.Unlock()
				if lockErr != nil { // the time is over
					return
				}
				time.Sleep(crowdHold)
				unlockErr := lock.Unlock(context.WithoutCancel(ctx))
				mu.Lock()
				err = errors.Join(err, unlockErr)
				grants += len(want)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	turn := 2 * d.Seconds() / float64(max(grants, 1)) * (singles + 1)
	return []report.Line{
		report.Alone("LockAll, longest wait", report.Seconds, contest.Series{longest.Seconds()}),
		report.Alone("  in turns", report.Count, contest.Series{longest.Seconds() / turn}).Aim(report.AtMost, 10),
	}, err
}

// tries compares how long ten Lockers take that get one key a hundred times each, and only try: every millisecond.
func tries(ctx context.Context, b *bench) ([]report.Line, error) {
	var took [2]contest.Series
	times := min(b.size/10, 100)
	for range b.plan.Rounds {
		for i, open := range []func(*pgxpool.Pool, ...pglock.Option) (*pglock.Locker, error){rowlock.New, pglock.New} {
			all, closeAll, err := lockers(ctx, b.Pool, 10, open)
			if err != nil {
				return nil, err
			}
			began := time.Now()
			var group sync.WaitGroup
			failures := make(chan error, len(all))
			for _, l := range all {
				group.Go(func() { failures <- takeByTrying(ctx, l, times) })
			}
			group.Wait()
			took[i] = append(took[i], time.Since(began).Seconds())
			closeAll()
			for range all {
				err = errors.Join(err, <-failures)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	line := report.Compare("10 that only try", report.Seconds, took[0], took[1]).Aim(report.AtMost, 10)
	refused, err := refusals(ctx, b)
	return append([]report.Line{line}, refused...), err
}

func takeByTrying(ctx context.Context, l *pglock.Locker, times int) error {
	for times > 0 {
		lock, err := l.TryLock(ctx, pglock.Int64Key(23))
		switch {
		case errors.Is(err, pglock.ErrNotAcquired):
			time.Sleep(time.Millisecond)
		case err != nil:
			return err
		default:
			times--
			if err := lock.Unlock(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusals shows what 1,000 tries of a key that is held write, beside one unlock. They take 20 s, so the lease is long: no
// renewal, which takes a transaction ID, comes between.
func refusals(ctx context.Context, b *bench) ([]report.Line, error) {
	all, closeAll, err := lockers(ctx, b.Pool, 2, rowlock.New, pglock.WithLease(time.Hour))
	if err != nil {
		return nil, err
	}
	defer closeAll()
	key := pglock.Int64Key(24)
	held, err := all[0].Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	var before, after struct{ xid, wal int64 }
	const written = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint`
	if err := b.Pool.QueryRow(ctx, written).Scan(&before.xid, &before.wal); err != nil {
		return nil, err
	}
	for range 1000 {
		if _, err := all[1].TryLock(ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
			return nil, fmt.Errorf("a try of a key that is held: %w", err)
		}
	}
	if err := held.Unlock(ctx); err != nil {
		return nil, err
	}
	err = b.Pool.QueryRow(ctx, written).Scan(&after.xid, &after.wal)
	return []report.Line{
		report.Alone("  XIDs, 1,000 and an unlock", report.Count, contest.Series{float64(after.xid - before.xid)}).Aim(report.AtMost, 1),
		report.Alone("  bytes of WAL for them", report.Count, contest.Series{float64(after.wal - before.wal)}),
	}, err
}
