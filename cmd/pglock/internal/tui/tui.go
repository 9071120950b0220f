// Package tui is the full-screen view of pglock monitor: who holds which advisory lock, who waits for whom, and how
// contention develops.
//
// Data flows one way. A command takes a snapshot. Model.Update stores it, adds it to the trends, and returns another
// command, which filters and sorts the locks and builds the trees. Model.View shows the rows that fit the screen. Slow
// work, such as asking the server or sorting 100,000 locks, happens in commands, so the view reacts to keys at once.
// Update and View have no side effects.
//
// Everything that comes from the server goes through view.Printable before it reaches the terminal.
package tui

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Options says what to watch, and how.
type Options struct {
	// Target names the server in the header, without the password.
	Target string
	// Flags name the server on a command line, with a space before each, for [view.EndCommand]. It is empty if none are needed,
	// and in a recording.
	Flags string
	// First is the snapshot to begin with.
	First *monitor.Snapshot
	// Take takes the next snapshot. It is called from one goroutine at a time, and must end with its context.
	Take Take
	// All says that snapshots have all waits at first. The user can change it, unless Seek is set.
	All bool
	// Events returns the events of contended keys up to the last snapshot, the latest last. It may be nil, and must not
	// block.
	Events func() []journal.Event
	// Seek moves in a recording; the next snapshot comes from there. If it is nil, the keys for it are disabled.
	Seek func(time.Duration) error
	// Interval is the time from the beginning of one snapshot to that of the next.
	Interval time.Duration
	// Filter says which locks are shown.
	Filter view.Filter
	// End signals a session, and records that. It is called from one goroutine at a time. If it is nil, the keys for it
	// are disabled.
	End End
	// Output is the terminal. Keys are read from standard input if that is a terminal, and otherwise from the
	// controlling terminal.
	Output io.Writer
}

// Take takes a snapshot, with waits for locks of every type if all is true ([monitor.WithAdvisory] else), and with all locks of a
// session or process if it is not zero ([monitor.WithSession]).
type Take func(ctx context.Context, all bool, of monitor.SessionID) (*monitor.Snapshot, error)

// End signals a session or process. The outcome and the error are those of [monitor.Terminate] and [monitor.Cancel].
type End func(context.Context, string, monitor.Target) (monitor.Outcome, error)

// Run shows the view until the user leaves it or ctx ends; neither is an error. It then restores the terminal, waits
// for a signal that is being sent, and returns the last snapshot.
func Run(ctx context.Context, o Options) (*monitor.Snapshot, error) {
	taking, stop := context.WithCancel(ctx)
	defer stop() // ends a snapshot that is being taken
	var signals drainer
	if o.End != nil {
		o.End = signals.wrap(o.End)
	}
	program := tea.NewProgram(newModel(taking, o), tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithoutSignalHandler())
	final, err := program.Run()
	signals.close()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	if m, ok := final.(Model); ok {
		return m.snapshot, err
	}
	return o.First, err
}

// drainer waits for signals that are being sent, since Bubble Tea does not wait for its commands.
type drainer struct{ mu sync.RWMutex }

var errLeft = errors.New("not signalled: the view was left")

func (g *drainer) wrap(end End) End {
	return func(ctx context.Context, signal string, c monitor.Target) (monitor.Outcome, error) {
		if !g.mu.TryRLock() {
			return monitor.Outcome{}, errLeft
		}
		defer g.mu.RUnlock()
		return end(ctx, signal, c)
	}
}

// close waits for calls that are running, and makes later ones fail.
func (g *drainer) close() { g.mu.Lock() }
