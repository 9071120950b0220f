package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/lab"
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestTheTimeInWhichALockIsFree(t *testing.T) {
	at := func(locker, locked, left int) turn {
		return turn{locker, time.UnixMilli(int64(locked)), time.UnixMilli(int64(left))}
	}
	turns := []turn{at(0, 1, 2), at(0, 10, 11), at(0, 12, 13), at(1, 5, 6)} // not in order, as they come from different Lockers
	if p99 := longestFree(turns); p99 != 4*time.Millisecond {               // 2 to 5, 6 to 10; the same Locker again is not a handoff
		t.Errorf("p99 %v", p99)
	}
	if p99 := longestFree(nil); p99 != 0 {
		t.Errorf("without turns: p99 %v", p99)
	}
}
