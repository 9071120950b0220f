package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// endHolder ends a process that holds locks in rows. Its id is never used again, so it needs no further check.
func (s *signalRun) endHolder(cmd *cobra.Command) error {
	db, err := s.dsn.resolve(cmd)
	if err != nil {
		return err
	}
	pool, err := db.pool(cmd.Context(), "pglock terminate")
	if err != nil {
		return err
	}
	defer pool.Close()
	trusted := monitor.WithTrustedOwner(db.trusted...)
	snapshot, err := monitor.Take(cmd.Context(), pool, trusted)
	if err != nil {
		return db.failed(err)
	}
	target, err := monitor.InspectHolder(cmd.Context(), pool, s.holder, trusted)
	if err != nil {
		return db.failed(err)
	}
	if !s.yes {
		if err := s.showHolder(db, view.PreviewHolder(snapshot, target, width())); err != nil || s.dryRun {
			return err
		}
		if err := s.confirmHolder(cmd, db); err != nil {
			return err
		}
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, sendEnd(ctx, db, pool, os.Stderr, target, trusted)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "process %s is ended: its locks in rows are free (%d), and it is told at its next renewal\n",
		view.Process(target.RowProcess), len(target.Locks))
	return err
}

// showHolder prints what ends with the process, with --dry-run on standard output.
func (s *signalRun) showHolder(db database, preview []string) error {
	out := os.Stderr
	if s.dryRun {
		out, preview = os.Stdout, append(preview, "", s.holderCommand(db))
	}
	if _, err := io.WriteString(out, lines(preview)); err != nil {
		return fmt.Errorf("show the process: %w", err)
	}
	return nil
}

func (s *signalRun) confirmHolder(cmd *cobra.Command, db database) error {
	if !term.Is(os.Stdin) || !term.Is(os.Stderr) {
		return misuse(cmd, "%s: there is no terminal to ask on; to end this process, run %s", db.target, s.holderCommand(db))
	}
	return askForYes(fmt.Sprintf("%s: end process %s?", db.target, s.holder), "cancelled: nothing was ended")
}

// holderCommand returns the command that ends the process without asking.
func (s *signalRun) holderCommand(db database) string {
	return view.EndProcess(s.holder, db.flags) + " --yes"
}

// sendEnd ends the process, and logs that it did or could not.
func sendEnd(ctx context.Context, db database, pool *pgxpool.Pool, log io.Writer, t monitor.RowTarget, trusted monitor.Option) error {
	logger := slog.New(slog.NewTextHandler(log, nil)).With("server", db.target, "holder", t.Holder, "user", t.User,
		"application", t.Application, "host", t.Host, "pid", t.PID, "locks", len(t.Locks))
	if err := monitor.EndHolder(ctx, pool, t.Holder, trusted); err != nil {
		logger.Error("holder of locks in rows not ended", "error", oneLine(err.Error()))
		return db.failed(err)
	}
	logger.Info("holder of locks in rows ended")
	return nil
}
