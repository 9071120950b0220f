package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/delay"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

const (
	// poolSize is how many connections plain pgx gets if goroutines share them.
	poolSize = 64
	// mostConnections is how many connections a Locker uses by default for free locks.
	mostConnections = 2
)

// fewGoroutines compares n goroutines with as many plain connections.
func fewGoroutines(n int, least float64) measured {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		r, err := l.held(ctx, n, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		lines, err := l.race(ctx, r, fmt.Sprintf("%d goroutines", n), n, distinctKey)
		if err != nil {
			return nil, err
		}
		return l.finish(ctx, r, lines, least)
	}
}

// manyGoroutines compares n goroutines with a pool, with goose, and with the server's limit.
func manyGoroutines(n int, least float64) measured {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		r, err := l.pooled(ctx, poolSize, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		lines, err := l.race(ctx, r, fmt.Sprintf("%d goroutines", n), n, distinctKey)
		if err != nil {
			return nil, err
		}
		if lines, err = l.finish(ctx, r, lines, least); err != nil {
			return nil, err
		}
		more, err := l.besideOthers(ctx, r, n)
		return append(lines, more...), err
	}
}

// besideOthers compares n goroutines with goose's lockers, and with pgbench: the server's limit with 64 connections and
// single statements, and with one or two connections and statements over many keys.
func (l *lab) besideOthers(ctx context.Context, r *rivals, n int) (_ []report.Line, err error) {
	goose, err := l.gooseLockers(n, poolSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, goose.close()) }()
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Rate(n, lockerPairs(r.locker, distinctKey))},
		contest.Contestant{Name: "goose", Measure: contest.Rate(n, goose.pairs())},
		l.pgbenchSingle(poolSize).contestant("pgbench"),
		l.pgbenchArrays(1).contestant("pgbench arrays, 1 client"),
		l.pgbenchArrays(2).contestant("pgbench arrays, 2 clients"))
	if err != nil {
		return nil, err
	}
	return []report.Line{
		beside("  goose's session locker", all[0], all[1]),
		beside("  pgbench, 64 clients", all[0], all[2]),
		beside("  pgbench, 1 with arrays", all[0], all[3]),
		beside("  pgbench, 2 with arrays", all[0], all[4]),
	}, nil
}

// delayedGoroutines compares n goroutines with a network in between.
func delayedGoroutines(n int, least float64) measured {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		network := delay.New(networkDelay)
		defer network.Close()
		open := l.held
		if n >= poolSize {
			open = l.pooled
		}
		r, err := open(ctx, min(n, poolSize), network.Dial)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		lines, err := l.race(ctx, r, fmt.Sprintf("%d goroutines, +%v", n, networkDelay), n, distinctKey)
		if err != nil {
			return nil, err
		}
		return l.finish(ctx, r, lines, least)
	}
}

// finish sets the target of the first line, and adds the line of the connections after it.
func (l *lab) finish(ctx context.Context, r *rivals, lines []report.Line, least float64) ([]report.Line, error) {
	lines[0] = lines[0].Aim(report.AtLeast, least)
	connections, err := l.connections(ctx, r.connections, mostConnections)
	return append(lines, connections), err
}

// oneKey compares goroutines that pass one lock on with connections that wait for it in the server.
func oneKey(ctx context.Context, l *lab) (_ []report.Line, err error) {
	const n, least = 64, 50
	r, err := l.held(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	lines, err := l.race(ctx, r, fmt.Sprintf("%d goroutines on one key", n), n, theKey)
	if err != nil {
		return nil, err
	}
	lines[0] = lines[0].Aim(report.AtLeast, least)
	return lines, nil
}
