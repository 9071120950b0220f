package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/pglock"
)

// guardTx counts the round trips that GuardTx adds to a transaction of one update, and compares their duration.
func guardTx(ctx context.Context, l *lab) (_ []report.Line, err error) {
	locker, err := l.locker(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocker(locker)) }()
	lock, err := locker.Lock(ctx, pglock.NewKey("guarded"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	var counter tripCounter
	conns, err := l.plainConns(ctx, 1, counter.dial)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conns.close()) }()
	return compareGuarded(ctx, l, conns[0], lock, &counter)
}

func compareGuarded(ctx context.Context, l *lab, conn *pgx.Conn, lock *pglock.Lock, counter *tripCounter,
) (_ []report.Line, err error) {
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE account AS SELECT 1 AS id, 0 AS balance"); err != nil {
		return nil, err
	}
	update := func(ctx context.Context, before func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := before(tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 1 WHERE id = $1", 1)
			return err
		})
	}
	guarded := func(ctx context.Context, _, _ int) error {
		return update(ctx, func(tx pgx.Tx) error { return lock.GuardTx(ctx, tx) })
	}
	bare := func(ctx context.Context, _, _ int) error {
		return update(ctx, func(pgx.Tx) error { return nil })
	}
	series, err := contest.Run(ctx, l.plan,
		contest.Contestant{Name: "pglock", Measure: contest.Latency(guarded)},
		contest.Contestant{Name: "plain", Measure: contest.Latency(bare)})
	if err != nil {
		return nil, err
	}
	with, err := counter.of(ctx, guarded)
	if err != nil {
		return nil, err
	}
	without, err := counter.of(ctx, bare)
	if err != nil {
		return nil, err
	}
	added := report.Line{
		What: fmt.Sprintf("  round trips: %d, without %d", with, without),
		Ours: report.Figure{Value: float64(with - without), Unit: report.Count},
	}
	return []report.Line{
		compared("update with GuardTx", report.Seconds, series[0], series[1]),
		added.Aim(report.AtMost, 1),
	}, nil
}

// of counts the round trips of work that has been done before, so that everything is prepared.
func (t *tripCounter) of(ctx context.Context, work contest.Work) (int64, error) {
	before := t.trips.Load()
	err := work(ctx, 0, 0)
	return t.trips.Load() - before, err
}
