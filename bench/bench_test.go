package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/lab"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The rows with several processes start this test binary again.
func TestMain(m *testing.M) {
	if isWorker() {
		exitOn(work(context.Background()))
		return
	}
	os.Exit(m.Run())
}

// TestProgramEveryRowCanBeMeasured checks no figure: it keeps the benchmark working.
func TestProgramEveryRowCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	servers, err := lab.Open(ctx)
	must.Succeed(t, err)
	defer func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &bench{Lab: servers, plan: contest.Plan{Rounds: 1, Slice: 50 * time.Millisecond}, size: 300}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			lines, err := r.run(ctx, b)
			if err != nil || len(lines) == 0 {
				t.Errorf("%d lines, %v", len(lines), err)
			}
			for _, line := range lines {
				if line.Ours.Value <= 0 || line.Ratio != nil && line.Ratio.Median <= 0 {
					t.Errorf("nothing was measured: %v", line)
				}
			}
		})
	}
}
