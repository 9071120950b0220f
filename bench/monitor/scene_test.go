package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// TestEverySceneCanBeMeasured checks no figure: it keeps the benchmark working.
func TestEverySceneCanBeMeasured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range scenes {
		if s.locks > 0 {
			s.locks, s.sessions, s.waiters = 100, 30, 12
		}
		figures, err := s.measure(ctx, server, 2)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if figures.statements == 0 || figures.backend == 0 || figures.client == 0 || figures.bytes == 0 {
			t.Errorf("%s: something was not measured: %+v", s.name, figures)
		}
	}
}

func TestASceneThatCannotBeSetUpLeavesNothing(t *testing.T) {
	server, err := pgserver.Start(t.Context(), pgserver.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (scene{sessions: 1}).measure(ctx, server, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
