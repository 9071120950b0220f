package main

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/delay"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// control compares plain pgx with itself. Its difference from 1 is the error of the other rows.
func control(ctx context.Context, l *lab) ([]report.Line, error) {
	const n = 8
	all, err := l.plainAgainstPlain(ctx, n, [2]dialFunc{}, func(work contest.Work) measure { return contest.Rate(n, work) })
	if err != nil {
		return nil, err
	}
	return []report.Line{compared("plain pgx against itself", report.PerSecond, all[0], all[1])}, nil
}

// network measures the simulated network: what it adds to a round trip, and, when it adds no delay, what plain pgx over
// many connections loses by it. That loss would be an unfair advantage for a contestant that sends less.
func network(ctx context.Context, l *lab) ([]report.Line, error) {
	slow, idle := delay.New(networkDelay), delay.New(0)
	defer slow.Close()
	defer idle.Close()
	times, err := l.plainAgainstPlain(ctx, 1, [2]dialFunc{slow.Dial, nil}, contest.Latency)
	if err != nil {
		return nil, err
	}
	const statements = 2
	added := (times[0].Median() - times[1].Median()) / statements
	rates, err := l.plainAgainstPlain(ctx, poolSize, [2]dialFunc{idle.Dial, nil},
		func(work contest.Work) measure { return contest.Rate(poolSize, work) })
	if err != nil {
		return nil, err
	}
	return []report.Line{
		{What: "network: delay of a trip", Peer: report.Figure{Value: added, Unit: report.Seconds}},
		compared("network: what it costs", report.PerSecond, rates[0], rates[1]),
	}, nil
}

// plainAgainstPlain measures n plain connections dialled in one way, and n in the other.
func (l *lab) plainAgainstPlain(ctx context.Context, n int, dial [2]dialFunc, with func(contest.Work) measure,
) (_ []contest.Series, err error) {
	var contestants [2]contest.Contestant
	for i := range contestants {
		var conns plainConns
		if conns, err = l.plainConns(ctx, n, dial[i]); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, conns.close()) }()
		contestants[i] = contest.Contestant{Name: "plain", Measure: with(conns.pairs(distinctKey))}
	}
	return contest.Run(ctx, l.plan.Finer(finer), contestants[:]...)
}
