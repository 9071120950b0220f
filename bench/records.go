package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// compare returns the line of two ways to do a piece of work.
func (b *bench) compare(ctx context.Context, what string, goroutines int, ours, theirs contest.Work) (report.Line, error) {
	all, err := contest.Run(ctx, b.plan.Finer(finer),
		contest.Contestant{Name: "pglock", Measure: contest.Rate(goroutines, ours)},
		contest.Contestant{Name: "peer", Measure: contest.Rate(goroutines, theirs)})
	if err != nil {
		return report.Line{}, err
	}
	return report.Compare(what, report.PerSecond, all[0], all[1]), nil
}

const (
	callers  = 512
	rateKeys = 16
)

// generous is never reached, so every call is let through and written.
var generous = ratelimit.Limit{Count: 10_000_000, Per: time.Second}

// onKeys calls with one of the keys, which are made beforehand.
func onKeys(prefix string, call func(ctx context.Context, key string) error) contest.Work {
	var keys [rateKeys]string
	for i := range keys {
		keys[i] = fmt.Sprint(prefix, i)
	}
	return func(ctx context.Context, worker, _ int) error { return call(ctx, keys[worker%rateKeys]) }
}

func limited(l *ratelimit.Limiter) contest.Work {
	return onKeys("ours:", func(ctx context.Context, key string) error {
		_, err := l.Allow(ctx, key, generous)
		return err
	})
}

// upsert is GCRA in one statement per call: the row is written unless there is no room.
const upsert = `
INSERT INTO plain_rates AS r (key, busy_until) VALUES ($1, clock_timestamp() + $2::interval)
ON CONFLICT (key) DO UPDATE SET busy_until = greatest(r.busy_until, clock_timestamp()) + $2::interval
WHERE greatest(r.busy_until, clock_timestamp()) + $2::interval - $3::interval <= clock_timestamp()
RETURNING busy_until`

func rates(ctx context.Context, b *bench) (lines []report.Line, err error) {
	_, err = b.Pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS plain_rates (key text PRIMARY KEY, busy_until timestamptz NOT NULL)
		WITH (fillfactor = 50)`)
	if err != nil {
		return nil, err
	}
	onPostgres, err := ratelimit.New(b.Pool, pglock.NewKey("bench"), ratelimit.WithTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	plain := onKeys("plain:", func(ctx context.Context, key string) error {
		_, err := b.Pool.Exec(ctx, upsert, key, time.Microsecond, time.Second)
		return err
	})
	line, err := b.compare(ctx, "PostgreSQL, and upsert", callers, limited(onPostgres), plain)
	if err != nil {
		return nil, err
	}
	lines = append(lines, line.Aim(report.AtLeast, 20))

	client := redis.NewClient(&redis.Options{Addr: b.At.Redis, PoolSize: peer.PoolSize})
	defer func() { err = errors.Join(err, client.Close()) }()
	onRedis, err := redisfallback.NewLimiter(client, pglock.NewKey("bench"), ratelimit.WithTimeout(10*time.Second))
	if err != nil {
		return lines, err
	}
	rate, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: generous.Count, Burst: generous.Count, Period: generous.Per}
	theirs := onKeys("peer:", func(ctx context.Context, key string) error {
		_, err := rate.Allow(ctx, key, limit)
		return err
	})
	line, err = b.compare(ctx, "Redis, and redis_rate", callers, limited(onRedis), theirs)
	return append(lines, line.Aim(report.AtLeast, 2)), err
}

// doOnce compares on tables with many records.
func doOnce(ctx context.Context, b *bench) (lines []report.Line, err error) {
	scope, err := once.New(pglock.NewKey("bench"))
	if err != nil {
		return nil, err
	}
	if _, err := b.Pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS plain_once (scope text COLLATE "C", id text COLLATE "C",
		done_at timestamptz NOT NULL, PRIMARY KEY (id, scope))`); err != nil {
		return nil, err
	}
	var last atomic.Int64
	inTx := func(do func(ctx context.Context, tx pgx.Tx, id string) error) contest.Work {
		return func(ctx context.Context, _, _ int) error {
			return pgx.BeginFunc(ctx, b.Pool, func(tx pgx.Tx) error { return do(ctx, tx, fmt.Sprint("new ", last.Add(1))) })
		}
	}
	ours := inTx(func(ctx context.Context, tx pgx.Tx, id string) error { return scope.Tx(ctx, tx, id) })
	plain := inTx(func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "INSERT INTO plain_once VALUES ($1, $2, clock_timestamp()) ON CONFLICT DO NOTHING", "bench", id)
		return err
	})
	for _, goroutines := range []int{1, 8} {
		line, err := b.compare(ctx, fmt.Sprintf("%d at a time", goroutines), goroutines, ours, plain)
		if err != nil {
			return lines, err
		}
		lines = append(lines, line.Aim(report.AtLeast, 1/1.3))
	}
	return lines, nil
}

// fence compares with numbers that a crash can bring back.
func fence(ctx context.Context, b *bench) (lines []report.Line, err error) {
	locker, err := pglock.New(b.Pool)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close(context.WithoutCancel(ctx))) }()
	with := func(number func(context.Context, *pglock.Lock) error) contest.Work {
		return func(ctx context.Context, worker, _ int) error {
			lock, err := locker.Lock(ctx, pglock.Int64Key(int64(worker)))
			if err != nil {
				return err
			}
			return errors.Join(number(ctx, lock), lock.Unlock(ctx))
		}
	}
	ours := with(func(ctx context.Context, lock *pglock.Lock) error { _, err := lock.Fence(ctx); return err })
	plain := with(func(ctx context.Context, _ *pglock.Lock) error {
		_, err := b.Pool.Exec(ctx, "SELECT nextval('pglock.fence')")
		return err
	})
	line, err := b.compare(ctx, "lock, Fence, unlock", 64, ours, plain)
	return []report.Line{line}, err
}
