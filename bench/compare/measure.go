package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// result is what was measured of a kind. What could not be measured is missing.
type result struct {
	kind
	missing string // why nothing was measured
	pair    []time.Duration
	handoff []time.Duration
	rates   map[int]float64 // pairs a second, by goroutines
}

var goroutines = []int{1, 8, 64, 512}

// compare measures the kinds that are available.
func compare(ctx context.Context, l *lab, plan contest.Plan, chosen []kind) (results []*result, err error) {
	var opened []*measured
	defer func() {
		for _, m := range opened {
			err = errors.Join(err, m.close())
		}
	}()
	for _, k := range chosen {
		r := &result{kind: k, rates: map[int]float64{}}
		results = append(results, r)
		m := &measured{result: r}
		for i := range m.processes {
			if m.processes[i], err = k.open(ctx, l); errors.Is(err, errMissing) {
				r.missing, err = err.Error(), nil
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
		}
		if r.missing == "" {
			opened = append(opened, m)
		}
	}
	for _, n := range goroutines {
		if err := rates(ctx, plan, opened, n); err != nil {
			return nil, err
		}
	}
	for _, m := range opened {
		fmt.Fprintf(os.Stderr, "· %s: from process to process\n", m.name)
		if err := m.handoffs(ctx, plan); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return results, nil
}

// measured is a kind with its lockers, one for each of two processes.
type measured struct {
	*result
	processes [2]*locker
}

func (m *measured) close() (err error) {
	for _, p := range m.processes {
		err = errors.Join(err, p.close())
	}
	return err
}

// rates lets n goroutines of one process lock and unlock a lock each.
func rates(ctx context.Context, plan contest.Plan, all []*measured, n int) error {
	fmt.Fprintf(os.Stderr, "· pairs a second, %d goroutines\n", n)
	var able []*measured
	var contestants []contest.Contestant
	for _, m := range all {
		if m.most > 0 && n > m.most {
			continue
		}
		able = append(able, m)
		work := contest.Work(func(ctx context.Context, worker, _ int) error { return m.processes[0].pair(ctx, worker) })
		if n == 1 {
			work = m.timed(work)
		}
		contestants = append(contestants, contest.Contestant{Name: m.name, Measure: contest.Rate(n, work)})
	}
	series, err := contest.Run(ctx, plan, contestants...)
	if err != nil {
		return err
	}
	for i, m := range able {
		m.rates[n] = series[i].Median()
	}
	return nil
}

func (l *locker) pair(ctx context.Context, number int) error {
	unlock, err := l.lock(ctx, number)
	if err != nil {
		return err
	}
	return unlock()
}

// timed keeps how long each pair takes. The first one opens connections and does not count.
func (m *measured) timed(work contest.Work) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		began := time.Now()
		err := work(ctx, worker, i)
		if i > 0 {
			m.pair = append(m.pair, time.Since(began))
		}
		return err
	}
}

const (
	handoffKey  = 1 << 20 // which no goroutine of rates uses
	leastPasses = 5       // however long one takes
	mostPasses  = 300
)

// handoffs passes a lock to and fro between two processes. Each waits for it before the other lets it go.
func (m *measured) handoffs(ctx context.Context, plan contest.Plan) error {
	end := time.Now().Add(time.Duration(2*plan.Rounds) * plan.Slice)
	unlock, err := m.processes[0].lock(ctx, handoffKey)
	if err != nil {
		return err
	}
	for i := 1; i <= mostPasses && (i <= leastPasses || time.Now().Before(end)); i++ {
		waiting := m.processes[i%2]
		granted := make(chan turn)
		go func() {
			next, err := waiting.lock(ctx, handoffKey)
			granted <- turn{next, time.Now(), err}
		}()
		settle(ctx)
		left := time.Now()
		if err := unlock(); err != nil {
			return errors.Join(err, (<-granted).end())
		}
		t := <-granted
		if t.err != nil {
			return t.err
		}
		m.handoff, unlock = append(m.handoff, t.at.Sub(left)), t.unlock
	}
	return unlock()
}

// settle lets a process begin to wait, and ends at a random moment of the pause of one that polls.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10*time.Millisecond + rand.N(20*time.Millisecond)):
	}
}

// turn is the grant of a lock that was waited for.
type turn struct {
	unlock func() error
	at     time.Time
	err    error
}

func (t turn) end() error {
	if t.err != nil {
		return t.err
	}
	return t.unlock()
}

// percentile returns the duration below which a share of all are.
func percentile(all []time.Duration, share float64) (d time.Duration, ok bool) {
	if len(all) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))], true
}
