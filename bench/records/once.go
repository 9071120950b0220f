package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

const (
	recordsVariable = "PGLOCK_BENCH_RECORDS"
	defaultRecords  = 10_000_000
)

// fill fills all four partitions with records, and fillPlain a table with the same ones.
const fill = `
INSERT INTO pglock.once_records (slot, scope, id, done_at)
	SELECT i % 4, 'bench', md5(i::text), now() FROM generate_series(1, $1::int) AS i`

const fillPlain = `INSERT INTO plain_once SELECT 'bench', md5(i::text), now() FROM generate_series(1, $1::int) AS i`

func doOnce(ctx context.Context, l *lab) (_ []report.Line, err error) {
	records := defaultRecords
	if text := os.Getenv(recordsVariable); text != "" {
		if records, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("%s: %w", recordsVariable, err)
		}
	}
	for _, statement := range []string{
		`CREATE TABLE plain_once (scope text COLLATE "C", id text COLLATE "C", done_at timestamptz NOT NULL,
			PRIMARY KEY (id, scope))`,
		`UPDATE pglock.once_slots SET since = now(), until = CASE WHEN slot > 0 THEN now() END`,
	} {
		if _, err := l.pool.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	for _, statement := range []string{fill, fillPlain} {
		if _, err := l.pool.Exec(ctx, statement, records); err != nil {
			return nil, err
		}
	}
	if _, err := l.pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, err
	}
	var lines []report.Line
	for _, workers := range []int{1, 8} {
		line, err := onceLine(ctx, l, workers, records)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func onceLine(ctx context.Context, l *lab, workers, records int) (report.Line, error) {
	scope, err := once.New(pglock.NewKey("bench"))
	if err != nil {
		return report.Line{}, err
	}
	var last atomic.Int64
	id := func() string { return fmt.Sprintf("new %d %d", workers, last.Add(1)) }
	ours := func(ctx context.Context, _, _ int) error {
		return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error { return scope.Tx(ctx, tx, id()) })
	}
	plain := func(ctx context.Context, _, _ int) error {
		return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "INSERT INTO plain_once VALUES ($1, $2, clock_timestamp()) ON CONFLICT DO NOTHING", "bench", id())
			if err == nil && tag.RowsAffected() != 1 {
				err = errors.New("a duplicate")
			}
			return err
		})
	}
	what := fmt.Sprintf("once, %d at a time, %dM", workers, records/1_000_000)
	if workers == 1 {
		all, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "pglock", Measure: contest.Latency(ours)},
			contest.Contestant{Name: "insert", Measure: contest.Latency(plain)})
		if err != nil {
			return report.Line{}, err
		}
		return against(what, report.Seconds, all[0], all[1]).Aim(report.AtMost, 1.3), nil
	}
	all, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Rate(workers, ours)},
		contest.Contestant{Name: "insert", Measure: contest.Rate(workers, plain)})
	if err != nil {
		return report.Line{}, err
	}
	return against(what, report.PerSecond, all[0], all[1]).Aim(report.AtLeast, 1/1.3), nil
}
