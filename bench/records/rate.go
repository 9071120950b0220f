package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

const (
	callers = 512
	keys    = 16
)

// generous is never reached, so every call is let through and written.
var generous = ratelimit.Limit{Count: 10_000_000, Per: time.Second}

// rateKeys are made beforehand.
func rateKeys(prefix string) (names [keys]string) {
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return names
}

func limited(l *ratelimit.Limiter) contest.Work {
	names := rateKeys("ours:")
	return func(ctx context.Context, worker, _ int) error {
		_, err := l.Allow(ctx, names[worker%keys], generous)
		return err
	}
}

// upsert is GCRA in one statement per call: the row is written unless there is no room.
const upsert = `
INSERT INTO plain_rates AS r (key, busy_until) VALUES ($1, clock_timestamp() + $2::interval)
ON CONFLICT (key) DO UPDATE SET busy_until = greatest(r.busy_until, clock_timestamp()) + $2::interval
WHERE greatest(r.busy_until, clock_timestamp()) + $2::interval - $3::interval <= clock_timestamp()
RETURNING busy_until`

func rateOnPostgres(ctx context.Context, l *lab) ([]report.Line, error) {
	limiter, err := ratelimit.New(l.pool, pglock.NewKey("bench"), ratelimit.Timeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	if _, err := l.pool.Exec(ctx, `CREATE TABLE plain_rates (key text PRIMARY KEY, busy_until timestamptz NOT NULL)
		WITH (fillfactor = 50)`); err != nil {
		return nil, err
	}
	names := rateKeys("plain:")
	plain := func(ctx context.Context, worker, _ int) error {
		_, err := l.pool.Exec(ctx, upsert, names[worker%keys], time.Microsecond, time.Second)
		return err
	}
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Rate(callers, limited(limiter))},
		contest.Contestant{Name: "upsert", Measure: contest.Rate(callers, plain)})
	if err != nil {
		return nil, err
	}
	return []report.Line{against("rate, PostgreSQL, upsert", report.PerSecond, all[0], all[1]).Aim(report.AtLeast, 20)}, nil
}

func rateOnRedis(ctx context.Context, l *lab) ([]report.Line, error) {
	limiter, err := redisfallback.NewLimiter(l.client, pglock.NewKey("bench"), ratelimit.Timeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	peer := redis_rate.NewLimiter(l.client)
	names := rateKeys("peer:")
	limit := redis_rate.Limit{Rate: generous.Count, Burst: generous.Count, Period: generous.Per}
	theirs := func(ctx context.Context, worker, _ int) error {
		_, err := peer.Allow(ctx, names[worker%keys], limit)
		return err
	}
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Rate(callers, limited(limiter))},
		contest.Contestant{Name: "redis_rate", Measure: contest.Rate(callers, theirs)})
	if err != nil {
		return nil, err
	}
	return []report.Line{against("rate, Redis, redis_rate", report.PerSecond, all[0], all[1]).Aim(report.AtLeast, 3)}, nil
}
