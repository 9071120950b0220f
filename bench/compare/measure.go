package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
)

// result is what was measured of a kind, by a peer for each of two processes.
type result struct {
	name      string
	processes [2]*peer.Peer
	pair      []time.Duration
	handoff   []time.Duration
	rates     map[int]float64 // pairs a second, by goroutines
}

var goroutines = []int{1, 8, 64, 512}

// compare measures the chosen kinds.
func compare(ctx context.Context, at peer.Addresses, plan contest.Plan, chosen []string) (results []*result, err error) {
	for _, name := range chosen {
		r := &result{name: name, rates: map[int]float64{}}
		for i := range r.processes {
			if r.processes[i], err = peer.Open(ctx, name, at); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, r.processes[i].Close()) }()
		}
		results = append(results, r)
	}
	for _, n := range goroutines {
		if err := rates(ctx, plan, results, n); err != nil {
			return nil, err
		}
	}
	for _, r := range results {
		fmt.Fprintf(os.Stderr, "· %s: from process to process\n", r.name)
		if err := r.handoffs(ctx, plan); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return results, nil
}

// rates lets n goroutines of one process lock and unlock a lock each.
func rates(ctx context.Context, plan contest.Plan, all []*result, n int) error {
	fmt.Fprintf(os.Stderr, "· pairs a second, %d goroutines\n", n)
	var contestants []contest.Contestant
	for _, r := range all {
		work := func(ctx context.Context, worker, _ int) error {
			began := time.Now()
			err := r.processes[0].Pair(ctx, worker, int64(worker))
			if n == 1 {
				r.pair = append(r.pair, time.Since(began))
			}
			return err
		}
		contestants = append(contestants, contest.Contestant{Name: r.name, Measure: contest.Rate(n, work)})
	}
	series, err := contest.Run(ctx, plan, contestants...)
	if err != nil {
		return err
	}
	for i, r := range all {
		if n == 1 {
			r.pair = r.pair[1:] // the first one opened connections
		}
		r.rates[n] = series[i].Median()
	}
	return nil
}

const (
	handoffKey  = 1 << 20 // which no goroutine of rates uses
	leastPasses = 5       // however long one takes
)

// turn is the grant of a lock that was waited for.
type turn struct {
	unlock func(context.Context) error
	at     time.Time
	err    error
}

// handoffs passes a lock to and fro between two processes. Each waits for it before the other lets it go.
func (r *result) handoffs(ctx context.Context, plan contest.Plan) error {
	end := time.Now().Add(time.Duration(2*plan.Rounds) * plan.Slice)
	unlock, err := r.processes[0].Lock(ctx, handoffKey, handoffKey)
	if err != nil {
		return err
	}
	for i := 1; i <= leastPasses || time.Now().Before(end); i++ {
		granted := make(chan turn, 1)
		go func() {
			next, err := r.processes[i%2].Lock(ctx, handoffKey, handoffKey)
			granted <- turn{next, time.Now(), err}
		}()
		settle(ctx)
		left := time.Now()
		if err := unlock(ctx); err != nil {
			return err
		}
		t := <-granted
		if t.err != nil {
			return t.err
		}
		r.handoff, unlock = append(r.handoff, t.at.Sub(left)), t.unlock
	}
	return unlock(ctx)
}

// settle lets a process begin to wait, and ends at a random moment of the pause of one that polls.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10*time.Millisecond + rand.N(20*time.Millisecond)):
	}
}
