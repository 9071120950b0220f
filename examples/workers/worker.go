package main

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/examples/workers/locks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

//go:embed schema.sql
var schema string

func makeTables(ctx context.Context, pool *pgxpool.Pool) error {
	return pglock.BeginFunc(ctx, pool, locks.FleetSchema(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, schema)
		return err
	})
}

type worker struct {
	name    string
	pool    *pgxpool.Pool
	elector *leader.Elector
	gateway *semaphore.Semaphore
	report  *schedule.Job
	nights  schedule.Schedule
	send    func(ctx context.Context, order int64) error
}

func newWorker(
	name string, pool *pgxpool.Pool, locker *pglock.Locker, every time.Duration, send func(ctx context.Context, order int64) error,
) (w *worker, err error) {
	w = &worker{name: name, pool: pool, send: send}
	onEvent := leader.WithEvents(func(e leader.Event) { slog.Info("election", "worker", name, "event", e.Type, "error", e.Err) })
	if w.elector, err = leader.New(locker, locks.Dispatcher(), onEvent); err != nil {
		return nil, err
	}
	if w.gateway, err = semaphore.New(locker, locks.MailGateway(), 2); err != nil {
		return nil, err
	}
	if w.report, err = schedule.New(locker, locks.NightlyReport()); err != nil {
		return nil, err
	}
	w.nights, err = schedule.Every(every) // midnight in UTC, the same in every process
	return w, err
}

// run does the work of a worker until ctx ends.
func (w *worker) run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { w.repeat(ctx, "send mails", w.sendMail) })
	group.Go(func() { w.reportEveryNight(ctx) })
	err := w.elector.Run(ctx, w.dispatch)
	group.Wait()
	if ctx.Err() != nil {
		return nil // it was asked to stop
	}
	return err
}

const pause = 100 * time.Millisecond

// repeat calls a function repeatedly, with a pause if there is nothing to do.
func (w *worker) repeat(ctx context.Context, what string, do func(context.Context) error) {
	for ctx.Err() == nil {
		err := do(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, pgx.ErrNoRows) {
			slog.Error(what, "worker", w.name, "error", err)
		}
		if err != nil {
			wait(ctx, pause)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// dispatch makes a mail for each new order while this process leads. The transaction is guarded: if the leader was
// replaced without noticing, its writes are rolled back.
func (w *worker) dispatch(ctx context.Context, lock *pglock.Lock) error {
	for ctx.Err() == nil {
		err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			if err := lock.GuardTx(ctx, tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `WITH new AS (UPDATE orders SET dispatched = true WHERE NOT dispatched RETURNING id)
				INSERT INTO mails (order_id) SELECT id FROM new`)
			return err
		})
		if err != nil {
			return err // gives the lead up, so that another process tries
		}
		wait(ctx, pause)
	}
	return nil
}

// sendMail sends one mail, under a permit for the gateway. pgx.ErrNoRows says that there is none to send.
func (w *worker) sendMail(ctx context.Context) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		var order int64
		err := tx.QueryRow(ctx, "SELECT order_id FROM mails WHERE sent_by IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&order)
		if err != nil {
			return err
		}
		err = w.gateway.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error { return w.send(ctx, order) })
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE mails SET sent_by = $1 WHERE order_id = $2", w.name, order)
		return err
	})
}

// reportEveryNight writes the report at each due time, unless another process has. RunTx commits the report together
// with the record of the run.
func (w *worker) reportEveryNight(ctx context.Context) {
	for due := w.nights.Next(time.Now()); ctx.Err() == nil; {
		err := w.report.RunTx(ctx, w.pool, due, func(ctx context.Context, tx pgx.Tx, _ *pglock.Lock) error {
			_, err := tx.Exec(ctx, `INSERT INTO reports (due, worker, mails)
				SELECT $1, $2, count(*) FROM mails WHERE sent_by IS NOT NULL`, due, w.name)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			slog.Info("report", "worker", w.name, "due", due)
		case !errors.Is(err, pglock.ErrDone):
			slog.Error("report", "worker", w.name, "error", err)
			wait(ctx, pause)
			continue // the same again
		}
		if now := time.Now(); now.After(due) {
			due = now // runs that were missed meanwhile are skipped; schedule.CatchUp would run them
		}
		due = w.nights.Next(due)
	}
}
