package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/lab"
	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// TestProgramEveryKindCanBeMeasured checks no figure: it keeps the benchmark working. Those of goose poll every five seconds.
func TestProgramEveryKindCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	servers, err := lab.Open(ctx)
	must.Succeed(t, err)
	defer func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	}()
	must.Succeed(t, servers.StartDeployments(ctx))
	quick := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == peer.Goose })
	results, err := compare(ctx, servers.At, contest.Plan{Rounds: 1, Slice: 20 * time.Millisecond}, quick)
	if err != nil || len(results) < len(quick) {
		t.Fatalf("%d results of %d, %v", len(results), len(quick), err)
	}
	for _, r := range results {
		if len(r.pair) == 0 || len(r.handoff) < leastPasses || r.rates[1] == 0 || r.rates[8] == 0 {
			t.Errorf("%s is not measured: %+v", r.name, r)
		}
	}
}
