package main

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rivals are a Locker and the plain pgx connections to compare it with.
type rivals struct {
	locker      *pglock.Locker
	plain       plainPgx
	connections int // of plain pgx
}

// plainPgx is one of the ways to lock without a library.
type plainPgx interface {
	pairs(key keyFunc) contest.Work
	close() error
}

// held gives each of n workers its own plain connection.
func (l *lab) held(ctx context.Context, n int, dial dialFunc) (*rivals, error) {
	conns, err := l.plainConns(ctx, n, dial)
	if err != nil {
		return nil, err
	}
	return l.against(ctx, conns, n, dial)
}

// pooled lets the workers share n plain connections.
func (l *lab) pooled(ctx context.Context, n int, dial dialFunc) (*rivals, error) {
	pool, err := l.plainPool(ctx, n, dial)
	if err != nil {
		return nil, err
	}
	return l.against(ctx, pool, n, dial)
}

func (l *lab) against(ctx context.Context, plain plainPgx, n int, dial dialFunc) (*rivals, error) {
	locker, err := l.locker(ctx, dial)
	if err != nil {
		return nil, errors.Join(err, plain.close())
	}
	return &rivals{locker: locker, plain: plain, connections: n}, nil
}

func (r *rivals) close() error { return errors.Join(closeLocker(r.locker), r.plain.close()) }

// lockerPairs locks and unlocks with a Locker.
func lockerPairs(locker *pglock.Locker, key keyFunc) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		lock, err := locker.Lock(ctx, pglock.Int64Key(key(worker, i)))
		if err != nil {
			return err
		}
		return lock.Unlock(ctx)
	}
}

// finer is how many times more often than usual two contestants take turns: the placement of their threads and
// backends by the operating system can change results by half, and changes often.
const finer = 5

// race compares how many pairs per second n workers do on both sides. It returns the line for that, and the lines
// of the processor time if they are asked for.
func (l *lab) race(ctx context.Context, r *rivals, what string, n int, key keyFunc) ([]report.Line, error) {
	var ours, plain costs
	all, err := contest.Run(ctx, l.plan.Finer(finer),
		contest.Contestant{Name: "pglock", Measure: l.metered(&ours, contest.Rate(n, lockerPairs(r.locker, key)))},
		contest.Contestant{Name: "plain", Measure: l.metered(&plain, contest.Rate(n, r.plain.pairs(key)))})
	if err != nil {
		return nil, err
	}
	lines := []report.Line{compared(what, report.PerSecond, all[0], all[1])}
	if l.showCPU {
		lines = append(lines,
			compared("  client CPU for each", report.Seconds, ours.client, plain.client),
			compared("  server CPU for each", report.Seconds, ours.server, plain.server))
	}
	return lines, nil
}

// costs are the processor times of one pair in each round, in seconds.
type costs struct{ client, server contest.Series }

// metered adds the cost of the measured pairs to c, unless c is nil.
func (l *lab) metered(c *costs, rate measure) measure {
	if !l.showCPU {
		return rate
	}
	return meter(l.usage, c, rate)
}

// meter adds the cost of the measured pairs to c.
func meter(usage func() (usage, error), c *costs, rate measure) measure {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		before, err := usage()
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		perSecond, err := rate(ctx, d)
		if err != nil {
			return 0, err
		}
		pairs := perSecond * time.Since(begin).Seconds()
		after, err := usage()
		spent := after.since(before)
		c.client = append(c.client, spent.client.Seconds()/pairs)
		c.server = append(c.server, spent.server.Seconds()/pairs)
		return perSecond, err
	}
}

// measure is how a contestant is measured.
type measure = func(context.Context, time.Duration) (float64, error)

// compared returns the line for two series.
func compared(what string, unit report.Unit, ours, peer contest.Series) report.Line {
	return report.Line{
		What:  what,
		Ours:  report.Figure{Value: ours.Median(), Unit: unit},
		Peer:  report.Figure{Value: peer.Median(), Unit: unit},
		Ratio: report.RatioOf(ours, peer),
	}
}

// beside returns a line for a peer other than plain pgx.
func beside(what string, ours, peer contest.Series) report.Line {
	line := compared(what, report.PerSecond, ours, peer)
	line.Ours = report.Figure{}
	return line
}

// connections returns the line with the number of the Locker's connections.
func (l *lab) connections(ctx context.Context, peer int, most float64) (report.Line, error) {
	n, err := l.ourConnections(ctx)
	line := report.Line{
		What: "  connections",
		Ours: report.Figure{Value: float64(n), Unit: report.Count},
		Peer: report.Figure{Value: float64(peer), Unit: report.Count},
	}
	return line.Aim(report.AtMost, most), err
}
