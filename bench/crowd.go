package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

// crowd lets several Lockers, as of so many processes, contend for one key that each holds for a moment and asks for again
// at once. It compares how many are served in a second, and how evenly, and shows how long the lock was free.
type crowd struct {
	ours    string
	peers   []string
	lockers int
}

const (
	crowdKey  = 13
	crowdHold = time.Millisecond
)

// turn is a period in which a Locker held the lock.
type turn struct {
	locker       int
	locked, left time.Time // left is when the unlock began
}

func (c crowd) run(ctx context.Context, b *bench) (_ []report.Line, err error) {
	names := append([]string{c.ours}, c.peers...)
	gaps, unevenness := make([]contest.Series, len(names)), make([]contest.Series, len(names))
	var contestants []contest.Contestant
	for i, name := range names {
		var all []*peer.Peer
		for range c.lockers {
			p, err := peer.Open(ctx, name, b.At)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			all = append(all, p)
		}
		contestants = append(contestants, contest.Contestant{
			Name: name,
			Measure: func(ctx context.Context, d time.Duration) (float64, error) {
				turns, err := contend(ctx, all, d)
				p99, uneven := judge(turns, c.lockers)
				gaps[i], unevenness[i] = append(gaps[i], p99.Seconds()), append(unevenness[i], uneven)
				return float64(len(turns)) / d.Seconds(), err
			},
		})
	}
	all, err := contest.Run(ctx, contest.Plan{Rounds: b.plan.Rounds, Slice: 4 * b.plan.Slice}, contestants...)
	if err != nil {
		return nil, err
	}
	var lines []report.Line
	for i := 1; i < len(names); i++ { // the first slice does not count
		lines = append(lines,
			report.Compare(fmt.Sprintf("%d, and %s", c.lockers, names[i]), report.PerSecond, all[0], all[i]),
			report.Compare("  free between two, p99", report.Seconds, gaps[0][1:], gaps[i][1:]),
			report.Compare("  most over least", report.Count, unevenness[0][1:], unevenness[i][1:]))
	}
	return lines, nil
}

// contend lets each peer lock and unlock one key for d.
func contend(ctx context.Context, peers []*peer.Peer, d time.Duration) (all []turn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, p := range peers {
		group.Go(func() {
			for {
				unlock, lockErr := p.Lock(ctx, i, crowdKey)
				if lockErr != nil { // the time is over
					return
				}
				t := turn{locker: i, locked: time.Now()}
				time.Sleep(crowdHold)
				t.left = time.Now()
				unlockErr := unlock(context.WithoutCancel(ctx))
				mu.Lock()
				all = append(all, t)
				err = errors.Join(err, unlockErr)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, err
}

// judge returns the 99th percentile of the time from an unlock to the next lock by another Locker, and how unevenly the
// Lockers were served: the largest number of turns over the smallest.
func judge(turns []turn, lockers int) (p99 time.Duration, uneven float64) {
	slices.SortFunc(turns, func(a, b turn) int { return a.locked.Compare(b.locked) })
	var gaps []time.Duration
	served := make([]int, lockers)
	for i, t := range turns {
		served[t.locker]++
		if i > 0 && turns[i-1].locker != t.locker {
			gaps = append(gaps, t.locked.Sub(turns[i-1].left))
		}
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		p99 = gaps[len(gaps)*99/100]
	}
	return p99, float64(slices.Max(served)) / float64(max(1, slices.Min(served)))
}
