package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/delay"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// poolSize is how many connections plain pgx gets where goroutines share them.
const poolSize = 64

// latency compares the time of one lock and unlock with that of the bare statements on a connection that is held.
func latency(ctx context.Context, l *lab) (_ []report.Line, err error) {
	locker, err := l.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	conns, err := l.plainConns(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conns.close()) }()

	compare := func(what string, with func(contest.Work) contest.Work) (report.Line, error) {
		series, err := contest.Run(ctx, l.plan.Finer(5),
			contest.Contestant{Name: "pglock", Measure: contest.Latency(with(lockerPairs(locker, distinctKey)))},
			contest.Contestant{Name: "plain", Measure: contest.Latency(with(conns.pairs(distinctKey)))})
		if err != nil {
			return report.Line{}, err
		}
		return compared(what, report.Seconds, series[0], series[1]).Aim(report.AtMost, 1.10), nil
	}
	cancellable, err := compare("1 goroutine, lock + unlock", asIs)
	if err != nil {
		return nil, err
	}
	endless, err := compare("  with an endless context", endless)
	return []report.Line{cancellable, endless}, err
}

func asIs(work contest.Work) contest.Work { return work }

// endless takes from work the end of its context, whose watching pgx then saves.
func endless(work contest.Work) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		return work(context.WithoutCancel(ctx), worker, i)
	}
}

// compared is the line for two series.
func compared(what string, unit report.Unit, ours, peer contest.Series) report.Line {
	return report.Line{
		What:  what,
		Ours:  report.Figure{Value: ours.Median(), Unit: unit},
		Peer:  report.Figure{Value: peer.Median(), Unit: unit},
		Ratio: report.RatioOf(ours, peer),
	}
}

// beside is a line below, for a peer other than plain pgx.
func beside(what string, ours, peer contest.Series) report.Line {
	line := compared(what, report.PerSecond, ours, peer)
	line.Ours = report.Figure{}
	return line
}

// connections is the line that says how many of them the Locker needed.
func (l *lab) connections(ctx context.Context, peer int, limit float64) (report.Line, error) {
	n, err := l.ourConnections(ctx)
	line := report.Line{
		What: "  connections",
		Ours: report.Figure{Value: float64(n), Unit: report.Count},
		Peer: report.Figure{Value: float64(peer), Unit: report.Count},
	}
	return line.Aim(report.AtMost, limit), err
}

func fewGoroutines(n int) func(context.Context, *lab) ([]report.Line, error) {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		locker, err := l.locker(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocker(locker)) }()
		conns, err := l.plainConns(ctx, n, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, conns.close()) }()
		series, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(locker, distinctKey))},
			contest.Contestant{Name: "plain", Measure: contest.Rate(n, conns.pairs(distinctKey))})
		if err != nil {
			return nil, err
		}
		rate := compared(fmt.Sprintf("%d goroutines", n), report.PerSecond, series[0], series[1])
		connections, err := l.connections(ctx, n, 4)
		return []report.Line{rate.Aim(report.AtLeast, 1), connections}, err
	}
}

func manyGoroutines(n int, least float64) func(context.Context, *lab) ([]report.Line, error) {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		locker, err := l.locker(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocker(locker)) }()
		pool, err := l.plainPool(ctx, poolSize, nil)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		goose, err := l.gooseLockers(n, poolSize)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, goose.close()) }()
		series, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(locker, distinctKey))},
			contest.Contestant{Name: "plain", Measure: contest.Rate(n, pooledPairs(pool))},
			contest.Contestant{Name: "goose", Measure: contest.Rate(n, goose.pairs())},
			l.pgbenchSingle(poolSize).contestant("pgbench"),
			l.pgbenchArrays(1).contestant("pgbench arrays, 1 client"),
			l.pgbenchArrays(2).contestant("pgbench arrays, 2 clients"))
		if err != nil {
			return nil, err
		}
		rate := compared(fmt.Sprintf("%d goroutines", n), report.PerSecond, series[0], series[1])
		connections, err := l.connections(ctx, poolSize, 4)
		return []report.Line{
			rate.Aim(report.AtLeast, least), connections,
			beside("  goose's session locker", series[0], series[2]),
			beside("  pgbench, 64 clients", series[0], series[3]),
			beside("  pgbench, arrays, 1 client", series[0], series[4]),
			beside("  pgbench, arrays, 2", series[0], series[5]),
		}, err
	}
}

func delayedGoroutines(n int, least float64) func(context.Context, *lab) ([]report.Line, error) {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		line := delay.New(networkDelay)
		defer line.Close()
		locker, err := l.locker(ctx, line.Dial)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocker(locker)) }()
		pool, err := l.plainPool(ctx, min(n, poolSize), line.Dial)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		series, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(locker, distinctKey))},
			contest.Contestant{Name: "plain", Measure: contest.Rate(n, pooledPairs(pool))})
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("%d goroutines, +%v", n, networkDelay)
		connections, err := l.connections(ctx, min(n, poolSize), 4)
		return []report.Line{
			compared(what, report.PerSecond, series[0], series[1]).Aim(report.AtLeast, least), connections,
		}, err
	}
}

// oneKey compares passing one lock on among goroutines with connections that wait for it in the server.
func oneKey(ctx context.Context, l *lab) (_ []report.Line, err error) {
	const n = 64
	theKey := func(int, int) int64 { return 7 }
	locker, err := l.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	conns, err := l.plainConns(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conns.close()) }()
	series, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(locker, theKey))},
		contest.Contestant{Name: "plain", Measure: contest.Rate(n, conns.pairs(theKey))})
	if err != nil {
		return nil, err
	}
	rate := compared(fmt.Sprintf("%d goroutines on one key", n), report.PerSecond, series[0], series[1])
	return []report.Line{rate.Aim(report.AtLeast, 50)}, nil
}
