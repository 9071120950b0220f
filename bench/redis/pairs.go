package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// A peer is measured with goroutines that lock and unlock separate keys.

func control(ctx context.Context, l *lab) ([]report.Line, error) {
	all, err := l.measure(ctx, l.plan.Finer(finest), contest.Latency, 1, redispeer.Bare, redispeer.Bare)
	if err != nil {
		return nil, err
	}
	return []report.Line{against("1 goroutine, bare", report.Seconds, all[0], all[1])}, nil
}

func latency(ctx context.Context, l *lab) ([]report.Line, error) {
	all, err := l.measure(ctx, l.plan.Finer(finest), contest.Latency, 1, redispeer.Ours, redispeer.Bare)
	if err != nil {
		return nil, err
	}
	line := against("1 goroutine, pglock", report.Seconds, all[0], all[1])
	return []report.Line{line.Aim(report.AtMost, 1.10)}, nil
}

// finest divides the slices of a single goroutine: a few hundred units are enough for an average, and the
// processor's clock and other load change all the time.
const finest = 10

// throughput compares our rates with those of every peer, and with the best of them in each round.
func throughput(goroutines int) func(context.Context, *lab) ([]report.Line, error) {
	return func(ctx context.Context, l *lab) ([]report.Line, error) {
		rate := func(work contest.Work) measurement { return contest.Rate(goroutines, work) }
		names := append([]string{redispeer.Ours, redispeer.Bare}, redispeer.Rivals...)
		all, err := l.measure(ctx, l.plan, rate, goroutines, names...)
		if err != nil {
			return nil, err
		}
		var lines []report.Line
		best := make(contest.Series, len(all[0]))
		for i, name := range names[1:] {
			what := "  " + name
			if i == 0 {
				what = fmt.Sprintf("%d goroutines, %s", goroutines, name)
			}
			line := against(what, report.PerSecond, all[0], all[i+1])
			if goroutines == 8 && name == redispeer.Rivals[0] {
				line = line.Aim(report.AtLeast, 1)
			}
			lines = append(lines, line)
			for round, figure := range all[i+1] {
				if name != redispeer.Bare {
					best[round] = max(best[round], figure)
				}
			}
		}
		line := against("  the best of the three", report.PerSecond, all[0], best)
		if goroutines == 512 {
			line = line.Aim(report.AtLeast, 3)
		}
		return append(lines, line), nil
	}
}

type measurement = func(context.Context, time.Duration) (float64, error)

// measure measures the named libraries alternately.
func (l *lab) measure(
	ctx context.Context, plan contest.Plan, kind func(contest.Work) measurement, goroutines int, names ...string,
) (_ []contest.Series, err error) {
	var contestants []contest.Contestant
	for _, name := range names {
		p, openErr := redispeer.Open[name](l.server.Addr())
		if openErr != nil {
			return nil, fmt.Errorf("%s: %w", name, openErr)
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		contestants = append(contestants, contest.Contestant{Name: name, Measure: kind(pair(p, goroutines))})
	}
	return contest.Run(ctx, plan, contestants...)
}

// pair locks and unlocks a key of the worker's own.
func pair(p *redispeer.Peer, workers int) contest.Work {
	names := make([]string, workers)
	for i := range names {
		names[i] = "key:" + strconv.Itoa(i)
	}
	return func(ctx context.Context, worker, _ int) error {
		unlock, err := p.Lock(ctx, names[worker])
		if err != nil {
			return err
		}
		return unlock()
	}
}

// against returns a line that compares two series.
func against(what string, unit report.Unit, ours, theirs contest.Series) report.Line {
	return report.Line{
		What: what, Ours: report.Figure{Value: ours.Median(), Unit: unit},
		Peer: report.Figure{Value: theirs.Median(), Unit: unit}, Ratio: report.RatioOf(ours, theirs),
	}
}
