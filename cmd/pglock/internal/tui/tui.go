// Package tui is the full-screen view of pglock monitor: who waits for whom, and who holds which key. What it shows are the rows
// and texts of package view, which scroll and can be searched.
//
// Data flows one way. A command takes a snapshot, Model.Update makes rows of it, and Model.View shows those that fit the screen.
// Update and View have no side effects. Everything that comes from the server is printable when it comes from package view.
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

// Options says what to watch, and how.
type Options struct {
	// Server names the server.
	Server view.Server
	// Filter says what is shown.
	Filter view.Filter
	// First is the snapshot to begin with.
	First *monitor.Snapshot
	// Take takes the next snapshot. It is called from one goroutine at a time, and must end with its context.
	Take func(context.Context) (*monitor.Snapshot, error)
	// Interval is the time from the beginning of one snapshot to that of the next.
	Interval time.Duration
	// Seek moves in a recording; the next snapshot comes from there. If it is nil, the keys for it are disabled.
	Seek func(time.Duration) error
	// End signals a session or process, after it has shown what ends with it and asked for confirmation, on the terminal that
	// the view leaves for so long. It reads the answer from the input. If it is nil, the keys for it are disabled.
	End func(input io.Reader, signal string, id monitor.SessionID) error
	// Output is the terminal. Keys are read from standard input if that is a terminal, and otherwise from the controlling
	// terminal.
	Output io.Writer
}

// Run shows the view until the user leaves it or ctx ends; neither is an error. It then restores the terminal, and returns the
// last snapshot.
func Run(ctx context.Context, o Options) (*monitor.Snapshot, error) {
	taking, stop := context.WithCancel(ctx)
	defer stop() // ends a snapshot that is being taken
	program := tea.NewProgram(newModel(taking, o), tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithoutSignalHandler())
	final, err := program.Run()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	if m, ok := final.(Model); ok {
		return m.snapshot, err
	}
	return o.First, err
}
