package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/monitor"
)

// snapshot measures how long a snapshot of a busy server takes.
func snapshot(ctx context.Context, b *bench) (_ []report.Line, err error) {
	locks, waiters := b.size, min(waiters, b.size)
	leave, err := b.fill(ctx, locks, waiters)
	defer func() { err = errors.Join(err, leave()) }()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, b.At.Postgres)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var took contest.Series
	for range 2 * b.plan.Rounds {
		began := time.Now()
		s, err := monitor.Take(ctx, conn)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
		if len(s.Locks) != locks || s.BlockersMissing != "" {
			return nil, fmt.Errorf("the snapshot has %d locks, want %d; blockers: %q", len(s.Locks), locks, s.BlockersMissing)
		}
	}
	return []report.Line{report.Alone("until Take returns", report.Seconds, took)}, nil
}
