package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/tui"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// fillsScreen reports whether the full-screen view can be used. The view reads keys from standard input, or else from the
// controlling terminal.
func fillsScreen() bool {
	return term.Is(os.Stdout) && os.Getenv("TERM") != "dumb" && (term.Is(os.Stdin) || term.Controlled())
}

// fillScreen shows the view, and leaves the last snapshot on the terminal.
func (m *monitorRun) fillScreen(ctx context.Context, db database, pool *pgxpool.Pool, filter view.Filter) error {
	var log delayedWriter
	o := newObserver(pool, db.flags, []monitor.Option{monitor.WithTrustedOwner(db.trusted...)})
	take := func(ctx context.Context, all bool, of monitor.SessionID) (*monitor.Snapshot, error) {
		more := []monitor.Option{monitor.WithSession(of)}
		if !all {
			more = append(more, monitor.WithAdvisory())
		}
		return o.take(ctx, more...)
	}
	first, err := take(ctx, !m.filters.advisory, monitor.SessionID{})
	if err != nil {
		return db.failed(err)
	}
	options := tui.Options{Interval: time.Duration(m.interval), Filter: filter, All: !m.filters.advisory, Output: os.Stdout,
		Target: db.target, Flags: db.flags, First: first, Take: take, Events: o.recentEvents}
	if !m.readOnly {
		options.End = func(ctx context.Context, signal string, c monitor.Target) (monitor.Outcome, error) {
			return send(ctx, db, pool, &log, signal, c)
		}
	}
	last, err := tui.Run(ctx, options)
	return errors.Join(err, leave(last, filter, view.Server{Target: db.target, Flags: db.flags}), log.close())
}

// leave leaves a snapshot on the terminal when the view has ended.
func leave(last *monitor.Snapshot, filter view.Filter, on view.Server) error {
	_, err := io.WriteString(os.Stdout, lines(view.OneScreen(last, filter, on, width(), height())))
	return err
}

// height returns the terminal's height without the line of the shell's prompt.
func height() int {
	if _, rows, ok := term.Size(os.Stdout); ok && rows > 1 {
		return rows - 1
	}
	return 23
}

// delayedWriter writes to standard error. If that is a terminal, it waits until the view has closed.
type delayedWriter struct{ kept bytes.Buffer }

func (a *delayedWriter) Write(p []byte) (int, error) {
	if term.Is(os.Stderr) {
		return a.kept.Write(p)
	}
	return os.Stderr.Write(p)
}

func (a *delayedWriter) close() error {
	_, err := a.kept.WriteTo(os.Stderr)
	return err
}

// lines joins lines for the terminal.
func lines(all []string) string { return view.ForTerminal(strings.Join(all, "\n")) + "\n" }
