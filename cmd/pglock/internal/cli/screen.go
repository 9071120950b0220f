package cli

import (
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
	o, on := newObserver(pool, db.flags, m.filters.options(db)), view.Server{Target: db.target, Flags: db.flags}
	first, err := inTime(ctx, o.take)
	if err != nil {
		return db.failed(err)
	}
	options := tui.Options{Server: on, Interval: time.Duration(m.interval), Filter: filter, Output: os.Stdout, First: first, Take: o.take}
	if !m.readOnly {
		options.End = func(input io.Reader, signal string, id monitor.SessionID) error {
			s := &signalRun{signal: signal, id: id}
			if err := s.dialog(ctx, input, db, pool); err != nil {
				say(os.Stderr, "%v", err)
			}
			_, _ = io.WriteString(os.Stderr, "Enter goes back to the view. ") // if it fails, reading does too
			readLine(ctx, input)
			return ctx.Err()
		}
	}
	last, err := tui.Run(ctx, options)
	return errors.Join(err, leave(last, filter, on))
}

// dialog shows what ends with a session, asks, and sends the signal.
func (s *signalRun) dialog(ctx context.Context, input io.Reader, db database, pool *pgxpool.Pool) error {
	target, preview, err := s.look(ctx, db, pool)
	if err != nil {
		return db.failed(err)
	}
	if err := s.confirm(ctx, input, db, target, preview, nil); err != nil {
		return err
	}
	return s.send(ctx, db, pool, target)
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

// lines joins lines for the terminal.
func lines(all []string) string { return view.ForTerminal(strings.Join(all, "\n")) + "\n" }
