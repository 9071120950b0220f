package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// The tests are a process of which the row handoff starts two more.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		exitOn(work(context.Background(), os.Stdin, os.Stdout))
		return
	}
	os.Exit(m.Run())
}

// TestEveryRowCanBeMeasured looks at no figure: it is what keeps the benchmark working.
func TestEveryRowCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, err := newLab(ctx, flags{plan: contest.Plan{Rounds: 1, Slice: 200 * time.Millisecond}, showCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	l.watch, l.log = 100*time.Millisecond, io.Discard
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			lines, err := r.run(ctx, l)
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

// expectNothingLeft asks the server for locks, and for sessions of the Locker.
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

func TestRowsAreSelectedByName(t *testing.T) {
	for expression, want := range map[string]int{"": len(rows), "^keys-(64|512)$": 2, "nothing": 0} {
		if got := len(selectRows(regexp.MustCompile(expression))); got != want {
			t.Errorf("%q selects %d rows, want %d", expression, got, want)
		}
	}
}

func TestWrongFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-rounds=0"}, {"-slice=0s"}, {"-only=("}, {"-timeout=-1s"}, {"extra"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
