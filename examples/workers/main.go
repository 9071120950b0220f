// Command workers is one of any number of equal processes. One of them, the leader, turns orders into mails; all of
// them send mails, two at a time in all; and the first one to try writes the nightly report.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

//go:generate pglockdev generate locks.sql

func main() {
	name := flag.String("name", "worker", "the name of this process")
	every := flag.Duration("every", 24*time.Hour, "how often the report is written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, *name, *every); err != nil {
		slog.Error("stopped", "reason", err)
		os.Exit(1)
	}
}

// start runs one process of the fleet until ctx ends.
func start(ctx context.Context, name string, every time.Duration) (err error) {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := install(ctx, pool); err != nil {
		return err
	}
	locker, err := pglock.New(pool, pglock.WithNames()) // the monitor shows the locks by their names
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, locker.Close(closing))
	}()
	w, err := newWorker(name, pool, locker, every, send)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// install creates pglock's tables, which record that the report was written, and those of this program. All
// processes may do this at once.
func install(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	return makeTables(ctx, pool)
}

// send takes the place of the mail gateway.
func send(ctx context.Context, order int64) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
