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
func (m *watch) fillsScreen() bool {
	return m.output == formatTable && !m.events && !m.notify.wanted() && term.Is(os.Stdout) && os.Getenv("TERM") != "dumb" &&
		(term.Is(os.Stdin) || term.Controlled())
}

// screen returns the options common to the views of a server and of a recording.
func (m *watch) screen(filter view.Filter) tui.Options {
	return tui.Options{Interval: time.Duration(m.interval), Filter: filter, All: m.all, Output: os.Stdout}
}

// takeFunc returns the function that takes snapshots for the view.
func (m *watch) takeFunc(o *observer) tui.Take {
	return func(ctx context.Context, all bool, of monitor.SessionID) (*monitor.Snapshot, error) {
		more := []monitor.Option{monitor.WithSession(of)}
		if all {
			more = append(more, monitor.WithAllWaits())
		}
		return o.take(ctx, more...)
	}
}

// fillScreen shows the view, and leaves the last snapshot on the terminal.
func (m *watch) fillScreen(ctx context.Context, db database, o *observer, filter view.Filter) error {
	var log delayedWriter
	options, take := m.screen(filter), m.takeFunc(o)
	first, err := take(ctx, m.all, monitor.SessionID{})
	if err != nil {
		return db.failed(err)
	}
	options.Target, options.Flags, options.First, options.Take = db.target, db.flags, first, take
	options.Events, options.End = o.recentEvents, m.signalFunc(db, o.pool, &log)
	options.MayEnd = m.mayFunc(o.pool)
	last, err := tui.Run(ctx, options)
	_, printErr := io.WriteString(os.Stdout, lines(view.OneScreen(last, filter, view.Server{Target: db.target, Flags: db.flags}, width(), height())))
	return errors.Join(err, printErr, log.close())
}

// height returns the terminal's height without the line of the shell's prompt.
func height() int {
	if _, rows, ok := term.Size(os.Stdout); ok && rows > 1 {
		return rows - 1
	}
	return 23
}

// signalFunc returns the function that signals sessions, or nil if the view is read-only.
func (m *watch) signalFunc(db database, pool *pgxpool.Pool, log io.Writer) tui.End {
	if m.readOnly {
		return nil
	}
	return func(ctx context.Context, signal string, c monitor.Target) (monitor.Outcome, error) {
		return send(ctx, db, pool, log, signal, c)
	}
}

// mayFunc returns the function that asks whether a signal would be refused, or nil if the view is read-only.
func (m *watch) mayFunc(pool *pgxpool.Pool) tui.MayEnd {
	if m.readOnly {
		return nil
	}
	return func(ctx context.Context, signal string, c monitor.Target) error {
		return monitor.CheckSend(ctx, pool, c, signal)
	}
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

func lines(all []string) string { return strings.Join(all, "\n") + "\n" }
