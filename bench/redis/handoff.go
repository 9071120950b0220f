package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
)

const (
	processes = 8
	holdFor   = time.Millisecond
)

// strategy is what a process does after an unlock.
type strategy string

const (
	// yielding: it asks again after another process has got the lock. So all others wait at every unlock, and
	// every handoff is to a process that has waited.
	yielding strategy = "letting-others"
	// greedy: it asks again at once. A library that polls then mostly gets its own lock again.
	greedy strategy = "greedy"
)

// turn is a period in which a process held the lock. All processes share the machine's clock.
type turn struct {
	process      int
	locked, left int64 // nanoseconds; left is when the unlock began
}

// handoff lets eight processes contend for one key.
func handoff(how strategy) func(context.Context, *lab) ([]report.Line, error) {
	return func(ctx context.Context, l *lab) ([]report.Line, error) {
		names := append([]string{redispeer.Ours}, redispeer.Rivals...)
		p99s, unevenness, err := l.contend(ctx, how, names)
		if err != nil {
			return nil, err
		}
		var lines []report.Line
		for i, name := range names[1:] {
			line := against("handoff p99, "+name, report.Seconds, p99s[0], p99s[i+1])
			if how == yielding {
				line = line.Aim(report.AtMost, map[bool]float64{true: 1, false: 1.0 / 20}[name == "rueidislock"])
			}
			lines = append(lines, line)
		}
		for i, name := range names[1:] {
			line := report.Line{
				What: "most/least, " + name,
				Ours: report.Figure{Value: unevenness[0].Median(), Unit: report.Count},
				Peer: report.Figure{Value: unevenness[i+1].Median(), Unit: report.Count},
			}
			if i == 0 {
				line = line.Aim(report.AtMost, 1.2)
			}
			lines = append(lines, line)
		}
		return lines, nil
	}
}

// contend returns for each peer the 99th percentile of its handoffs, and how unevenly its processes were served.
func (l *lab) contend(
	ctx context.Context, how strategy, names []string,
) (p99s, unevenness []contest.Series, err error) {
	dir, err := os.MkdirTemp("", "pglock-bench-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	unevenness = make([]contest.Series, len(names))
	var contestants []contest.Contestant
	for i, name := range names {
		group, startErr := l.startGroup(ctx, how, name, filepath.Join(dir, strings.ReplaceAll(name, "/", "-")))
		if startErr != nil {
			return nil, nil, startErr
		}
		defer func() { err = errors.Join(err, group.close()) }()
		contestants = append(contestants, contest.Contestant{
			Name: name,
			Measure: func(_ context.Context, d time.Duration) (float64, error) {
				if _, err := l.server.Do("FLUSHALL"); err != nil { // locks left over from the end of the last slice
					return 0, err
				}
				turns, err := group.contend(d)
				p99, uneven := judge(turns)
				unevenness[i] = append(unevenness[i], uneven)
				return p99.Seconds(), err
			},
		})
	}
	p99s, err = contest.Run(ctx, l.turn, contestants...)
	for i := range unevenness {
		unevenness[i] = unevenness[i][min(1, len(unevenness[i])):] // the first slice does not count
	}
	return p99s, unevenness, err
}

// judge returns the 99th percentile of the time from an unlock to the next lock by another process, and how unevenly
// the processes were served: the largest number of turns over the smallest.
func judge(turns []turn) (p99 time.Duration, uneven float64) {
	slices.SortFunc(turns, func(a, b turn) int { return int(a.locked - b.locked) })
	var gaps []int64
	served := make([]int, processes)
	for i, t := range turns {
		served[t.process]++
		if i > 0 && turns[i-1].process != t.process {
			gaps = append(gaps, t.locked-turns[i-1].left)
		}
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		p99 = time.Duration(gaps[len(gaps)*99/100])
	}
	return p99, float64(slices.Max(served)) / float64(max(1, slices.Min(served)))
}

// group is the processes that use one library.
type group []*contender

func (l *lab) startGroup(ctx context.Context, how strategy, name, file string) (c group, err error) {
	if err := os.WriteFile(file, make([]byte, counterSize), 0o600); err != nil {
		return nil, err
	}
	for range processes {
		w, err := startContender(ctx, order{name, l.server.Addr(), how, file})
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c = append(c, w)
	}
	return c, nil
}

// contend makes the processes contend for d, and returns all their turns.
func (c group) contend(d time.Duration) (all []turn, err error) {
	turns, errs := make([][]turn, len(c)), make([]error, len(c))
	var group sync.WaitGroup
	for i, w := range c {
		group.Go(func() { turns[i], errs[i] = w.contend(i, d) })
	}
	group.Wait()
	return slices.Concat(turns...), errors.Join(errs...)
}

func (c group) close() (err error) {
	for _, w := range c {
		err = errors.Join(err, w.Close())
	}
	return err
}
