package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// TestEveryKindCanBeMeasured checks no figure: it keeps the benchmark working. Those of goose poll every five seconds.
func TestEveryKindCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, err := openLab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	quick := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return strings.HasPrefix(k.name, "goose") })
	results, err := compare(ctx, l, contest.Plan{Rounds: 1, Slice: 20 * time.Millisecond}, quick)
	if err != nil || len(results) != len(quick) {
		t.Fatalf("%d results of %d, %v", len(results), len(quick), err)
	}
	for _, r := range results {
		if r.missing == "" && (len(r.pair) == 0 || len(r.handoff) < leastPasses || r.rates[1] == 0 || r.rates[8] == 0) {
			t.Errorf("%s is not measured: %+v", r.name, r)
		}
	}
}

func TestTheTableFitsInto80Columns(t *testing.T) {
	slow := slices.Repeat([]time.Duration{59*time.Second + 900*time.Millisecond}, 3)
	var results []*result
	for _, k := range kinds {
		results = append(results, &result{kind: k, pair: slow, handoff: slow, rates: map[int]float64{1: 999999, 8: 999999, 512: 999999}})
	}
	var out bytes.Buffer
	printTable(&out, results)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(out.String(), "60 s") || !strings.Contains(out.String(), "999,999") || !strings.Contains(out.String(), " -") {
		t.Errorf("a figure is missing:\n%s", out.String())
	}
}

func TestDurationsHaveTwoDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		48200 * time.Nanosecond: "48 µs", 1340 * time.Microsecond: "1.3 ms", 25 * time.Millisecond: "25 ms", 5 * time.Second: "5.0 s",
		250 * time.Millisecond: "250 ms",
	} {
		if got := brief(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	all := []time.Duration{5, 1, 4, 2, 3}
	if p50, ok := percentile(all, 0.5); !ok || p50 != 3 {
		t.Errorf("the median is %d", p50)
	}
	if p99, ok := percentile(all, 0.99); !ok || p99 != 5 {
		t.Errorf("the 99th percentile is %d", p99)
	}
	if _, ok := percentile(nil, 0.5); ok {
		t.Error("nothing has a median")
	}
}
