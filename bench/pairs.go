package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// pairs compares how many pairs of lock and unlock goroutines do in a second, each on keys of its own.
type pairs struct {
	goroutines int
	keys       int  // of each goroutine; by default 1024
	oneKey     bool // all use the same
	ours       string
	peers      []string
	server     bool          // whether pgbench takes part, which shows what the server can do
	delay      time.Duration // of each round trip
	least      float64       // ratio to the peer that against names, by default the first
	against    string
}

// networkDelay is the additional time of a round trip in the row with a network.
const networkDelay = 500 * time.Microsecond

// finer is how many times more often than usual contestants take turns: the placement of their threads and backends by the
// operating system can change results by half, and changes often.
const finer = 5

func (p pairs) run(ctx context.Context, b *bench) (_ []report.Line, err error) {
	at := b.At
	if p.delay > 0 {
		network := testenv.NewLink(p.delay / 2)
		defer network.Close()
		at.Dial = network.Dial
	}
	var contestants []contest.Contestant
	names := append([]string{p.ours}, p.peers...)
	for _, name := range names {
		opened, openErr := peer.Open(ctx, name, at)
		if openErr != nil {
			return nil, openErr
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		contestants = append(contestants, contest.Contestant{Name: name, Measure: contest.Rate(p.goroutines, p.work(opened))})
	}
	if p.server {
		for _, bench := range b.pgbench() {
			names = append(names, bench.name)
			contestants = append(contestants, contest.Contestant{Name: bench.name, Measure: bench.measure})
		}
	}
	all, err := contest.Run(ctx, b.plan.Finer(finer), contestants...)
	if err != nil {
		return nil, err
	}
	var lines []report.Line
	for i := 1; i < len(all); i++ {
		what := "  " + names[i]
		if i == 1 {
			what = fmt.Sprintf("%d, and %s", p.goroutines, names[i])
		}
		line := report.Compare(what, report.PerSecond, all[0], all[i])
		if p.least > 0 && (names[i] == p.against || p.against == "" && i == 1) {
			line = line.Aim(report.AtLeast, p.least)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func (p pairs) work(opened *peer.Peer) contest.Work {
	keys := p.keys
	if keys == 0 {
		keys = 1024
	}
	return func(ctx context.Context, worker, i int) error {
		if p.oneKey {
			return opened.Pair(ctx, worker, 7)
		}
		return opened.Pair(ctx, worker, int64(worker+1)<<32|int64(i%keys))
	}
}
