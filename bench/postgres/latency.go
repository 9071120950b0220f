package main

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// latency compares the time of one lock and unlock with that of the bare statements on a dedicated connection.
func latency(ctx context.Context, l *lab) (_ []report.Line, err error) {
	r, err := l.held(ctx, 1, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	const most = 1.10
	ours, plain := lockerPairs(r.locker, distinctKey), r.plain.pairs(distinctKey)
	usual, err := l.compareLatency(ctx, "1 goroutine, lock + unlock", ours, plain)
	if err != nil {
		return nil, err
	}
	bare, err := l.compareLatency(ctx, "  with an endless context", endless(ours), endless(plain))
	return []report.Line{usual.Aim(report.AtMost, most), bare.Aim(report.AtMost, most)}, err
}

func (l *lab) compareLatency(ctx context.Context, what string, ours, plain contest.Work) (report.Line, error) {
	const finest = 4 * finer // a few hundred units are enough for an average
	all, err := contest.Run(ctx, l.plan.Finer(finest),
		contest.Contestant{Name: "pglock", Measure: contest.Latency(ours)},
		contest.Contestant{Name: "plain", Measure: contest.Latency(plain)})
	if err != nil {
		return report.Line{}, err
	}
	return compared(what, report.Seconds, all[0], all[1]), nil
}

// endless runs work with a context that never ends, which pgx need not watch.
func endless(work contest.Work) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		return work(context.WithoutCancel(ctx), worker, i)
	}
}
