package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
)

// The rows with several processes start this test binary again.
func TestMain(m *testing.M) {
	if worker.Order() != "" {
		suite.ExitOn(work(os.Stdin, os.Stdout))
		return
	}
	os.Exit(m.Run())
}

// TestEveryRowCanBeMeasured checks no figure: it keeps the benchmark working.
func TestEveryRowCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, err := newLab(ctx, suite.Flags{Plan: contest.Plan{Rounds: 1, Slice: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			lines, err := r.Run(ctx, l)
			if err != nil || len(lines) == 0 {
				t.Fatalf("%d lines, %v", len(lines), err)
			}
		})
	}
}

func TestHandoffsAreJudged(t *testing.T) {
	const ms = int64(time.Millisecond)
	turns := []turn{ // not in order, as they come from different processes
		{0, 1 * ms, 2 * ms}, {0, 10 * ms, 11 * ms}, {0, 12 * ms, 13 * ms},
		{1, 5 * ms, 6 * ms},
	}
	p99, uneven := judge(turns)
	if p99 != 4*time.Millisecond || uneven != 3 { // 2 to 5, 6 to 10; the same process again is not a handoff
		t.Errorf("p99 %v, most over least %v", p99, uneven)
	}
	if p99, uneven := judge(nil); p99 != 0 || uneven != 0 {
		t.Errorf("without turns: p99 %v, most over least %v", p99, uneven)
	}
}
