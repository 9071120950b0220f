package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/suite"
	"github.com/pglock-toolkit/pglock/bench/internal/worker"
)

// The row handoff starts this test binary two more times.
func TestMain(m *testing.M) {
	if worker.Order() != "" {
		suite.ExitOn(work(context.Background(), os.Stdin, os.Stdout))
		return
	}
	os.Exit(m.Run())
}

// TestEveryRowCanBeMeasured checks no figure: it keeps the benchmark working.
func TestEveryRowCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	l, err := newLab(ctx, suite.Flags{Plan: contest.Plan{Rounds: 1, Slice: 10 * time.Millisecond}, ShowCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	l.watch, l.drawTo, l.most = 100*time.Millisecond, filepath.Join(t.TempDir(), "growth.svg"), 100
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			lines, err := r.Run(ctx, l)
			if err != nil {
				t.Fatal(err)
			}
			if len(lines) == 0 {
				t.Error("the row has no lines")
			}
			l.expectNothingLeft(ctx, t)
		})
	}
}

// expectNothingLeft checks that the server has no locks, and no sessions of the Locker.
func (l *lab) expectNothingLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	clean := func() bool {
		var locks int
		err := l.admin.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks)
		if err != nil {
			t.Fatal(err)
		}
		sessions, err := l.ourConnections(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return locks == 0 && sessions == 0
	}
	if err := until(ctx, clean); err != nil {
		t.Error("locks or sessions are left in the server")
	}
}
