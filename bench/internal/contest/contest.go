// Package contest measures several ways of doing the same work within one run. They take turns in short slices whose
// order changes from round to round, so that other load on the machine affects all of them alike, and only slices of
// the same round are compared.
package contest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"time"
)

// Contestant is one way of doing the work.
type Contestant struct {
	Name string
	// Measure works for about d and returns a figure: a rate, a latency.
	Measure func(ctx context.Context, d time.Duration) (float64, error)
}

// Plan says how long to measure.
type Plan struct {
	// Rounds is how many slices each contestant gets, and Slice how long each takes.
	Rounds int
	Slice  time.Duration
}

// Parse parses the arguments of a command that carries out a plan for what its flag -only matches. set may have more flags.
func Parse(set *flag.FlagSet, args []string) (plan Plan, only *regexp.Regexp, err error) {
	set.IntVar(&plan.Rounds, "rounds", 7, "number of slices for each contestant")
	set.DurationVar(&plan.Slice, "slice", 500*time.Millisecond, "length of a slice")
	expression := set.String("only", "", "measure only what has a name that matches this `regexp`")
	if err := set.Parse(args); err != nil {
		return plan, nil, err
	}
	if only, err = regexp.Compile(*expression); err != nil || set.NArg() > 0 || plan.Rounds < 1 || plan.Slice <= 0 {
		err = errors.Join(errors.New("want no arguments, -rounds and -slice above 0, and a regular expression for -only"), err)
	}
	return plan, only, err
}

// Finer returns the plan of an equally long contest with n times as many slices, for work whose speed depends
// on where the operating system happens to place its threads.
func (p Plan) Finer(n int) Plan { return Plan{Rounds: p.Rounds * n, Slice: p.Slice / time.Duration(n)} }

// Series are a contestant's figures, one for each round.
type Series []float64

// Run holds the contest and returns a series for each contestant, in their order. The first slice of each fills caches
// and opens connections, and does not count.
func Run(ctx context.Context, plan Plan, contestants ...Contestant) ([]Series, error) {
	all := make([]Series, len(contestants))
	for i, c := range contestants {
		if _, err := c.slice(ctx, plan.Slice/2); err != nil {
			return nil, err
		}
		all[i] = make(Series, plan.Rounds)
	}
	for round := range plan.Rounds {
		for turn := range contestants {
			i := (round + turn) % len(contestants)
			figure, err := contestants[i].slice(ctx, plan.Slice)
			if err != nil {
				return nil, err
			}
			all[i][round] = figure
		}
	}
	return all, nil
}

// grace is how much longer than planned a slice may take before it is cancelled.
const grace = 30 * time.Second

// slice runs one slice.
func (c Contestant) slice(ctx context.Context, d time.Duration) (figure float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, d+grace)
	defer cancel()
	runtime.GC() // each contestant starts with a clean heap
	if figure, err = c.Measure(ctx, d); err != nil {
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	}
	return figure, nil
}

// Median returns the middle figure; 0 for an empty series.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Over divides the figures by those of another series, round by round.
func (s Series) Over(other Series) Series {
	ratios := make(Series, min(len(s), len(other)))
	for i := range ratios {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// Quartiles returns the first and the third quartile.
func (s Series) Quartiles() (low, high float64) {
	if len(s) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(s))
	quarter := (len(sorted) - 1) / 4
	return sorted[quarter], sorted[len(sorted)-1-quarter]
}

// Turn is a period in which a Locker held the lock.
type Turn struct {
	Locker       int
	Locked, Left time.Time // Left is when the unlock began
}

// LongestFree returns the 99th percentile of the time from an unlock to the next lock by another Locker.
func LongestFree(turns []Turn) time.Duration {
	slices.SortFunc(turns, func(a, b Turn) int { return a.Locked.Compare(b.Locked) })
	var gaps []time.Duration
	for i, t := range turns {
		if i > 0 && turns[i-1].Locker != t.Locker {
			gaps = append(gaps, t.Locked.Sub(turns[i-1].Left))
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)*99/100]
}
