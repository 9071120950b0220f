// Package tui is the full-screen view of pglock monitor: who holds which advisory lock, who waits for whom, and how
// contention developed, renewed in place.
//
// Data flows one way. A command takes a snapshot and hands it to Model.Update, which keeps it, adds it to the trends,
// and has another command arrange it: filter, sort, grow the trees. Model.View writes the rows that fit the screen.
// What can take long (the server, 100,000 locks) happens in commands, so keys are answered at once. Update and View
// have no effects.
//
// Everything that comes from the server goes through view.Printable before it reaches the terminal. Colours repeat what
// the text says already.
package tui

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Options says what is watched, and how.
type Options struct {
	// Target shows people which server it is, without the password.
	Target string
	// First is the snapshot to begin with.
	First *monitor.Snapshot
	// Take takes another one. It is called from one goroutine at a time, and must end with its context.
	Take func(context.Context) (*monitor.Snapshot, error)
	// Interval is the pause between the beginnings of two snapshots.
	Interval time.Duration
	// Filter says which locks are shown. Waiting can be changed with a key, Keys cannot.
	Filter view.Filter
	// Output is the terminal. Keys are read from the standard input if that is one, else from the controlling terminal.
	Output io.Writer
}

// Run shows the view until the user leaves it or ctx ends, neither of which is an error. It gives the terminal back as
// it was and returns the last snapshot.
func Run(ctx context.Context, o Options) (*monitor.Snapshot, error) {
	taking, stop := context.WithCancel(ctx)
	defer stop() // a snapshot that is under way
	program := tea.NewProgram(newModel(taking, o),
		tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithoutSignalHandler())
	final, err := program.Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	if m, ok := final.(Model); ok && m.snapshot != nil {
		return m.snapshot, err
	}
	return o.First, err
}
