// Package tui is the full-screen view of pglock monitor: who holds which advisory lock, who waits for whom, and how
// contention developed, updated in place.
//
// Data flows one way. A command takes a snapshot and hands it to Model.Update, which keeps it, adds it to the trends,
// and has another command arrange it: filter, sort, grow the trees. Model.View writes the rows that fit the screen.
// Slow work (the server, 100,000 locks) happens in commands, so the view reacts to keys at once. Update and View have
// no effects.
//
// Everything that comes from the server goes through view.Printable before it reaches the terminal. Colours only repeat
// what the text says.
package tui

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
)

// Options says what to watch, and how.
type Options struct {
	// Target shows people which server it is, without the password.
	Target string
	// First is the snapshot to begin with.
	First *monitor.Snapshot
	// Take takes the next snapshot. It is called from one goroutine at a time, and must end with its
	// context.
	Take func(context.Context) (*monitor.Snapshot, error)
	// Events returns the events of contended keys up to the last snapshot, the latest last. It may be nil, and must not
	// block.
	Events func() []journal.Event
	// Seek moves in a recording; the next snapshot comes from there. If it is nil there are no keys for moving.
	Seek func(time.Duration) error
	// Interval is the pause between the beginnings of two snapshots.
	Interval time.Duration
	// Servers are several servers, in place of Target, First, Take, Events and End.
	Servers []Server
	// Filter says which locks are shown. Waiting can be changed with a key, Keys cannot.
	Filter view.Filter
	// End signals a session, and records that it did. It is called from one goroutine at a time. If it is nil there are
	// no keys that end sessions.
	End End
	// NoMouse leaves the mouse to the terminal until the user asks for it.
	NoMouse bool
	// Output is the terminal. Keys are read from standard input if that is a terminal, else from the controlling
	// terminal.
	Output io.Writer
}

// Server is one of several servers. Each is watched independently, so one that does not answer does not delay the
// others.
type Server struct {
	// Label distinguishes it from the others, and is in [monitor.Server] of its snapshots. Target is as in
	// Options.
	Label, Target string
	// First is the snapshot to begin with; nil if there is none yet.
	First *monitor.Snapshot
	// Take, Events and End are as in Options.
	Take   func(context.Context) (*monitor.Snapshot, error)
	Events func() []journal.Event
	End    End
}

// End signals a session. The outcome and the error are those of [monitor.Send].
type End func(context.Context, monitor.Signal, monitor.SignalTarget) (monitor.Outcome, error)

// Run shows the view until the user leaves it or ctx ends; neither is an error. It restores the terminal, waits for a
// signal that is under way, and returns the last snapshot.
func Run(ctx context.Context, o Options) (*monitor.Snapshot, error) {
	last, err := RunSeveral(ctx, o)
	return last[0].Snapshot, err
}

// Last is what was known about a server when the view was left.
type Last struct {
	// Snapshot is the latest; nil if there has been none. Lost is why there has been none since.
	Snapshot *monitor.Snapshot
	Lost     error
}

// RunSeveral is Run for several servers.
func RunSeveral(ctx context.Context, o Options) ([]Last, error) {
	taking, stop := context.WithCancel(ctx)
	defer stop() // a snapshot that is under way
	var executions gate
	model := newModel(taking, o)
	for i, s := range model.servers {
		if s.End != nil {
			model.servers[i].End = executions.guard(s.End)
		}
	}
	program := tea.NewProgram(model.focused(),
		tea.WithContext(ctx), tea.WithOutput(o.Output), tea.WithoutSignalHandler())
	final, err := program.Run()
	executions.close()
	if ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	if m, ok := final.(Model); ok {
		model = m
	}
	var last []Last
	for _, s := range model.servers {
		if !s.seen {
			s.snapshot = nil
		}
		last = append(last, Last{s.snapshot, s.lost})
	}
	return last, err
}

// gate admits executions while it is open, and waits for them, since Bubble Tea does not wait for its
// commands.
type gate struct{ open sync.RWMutex }

var errLeft = errors.New("not signalled: the view was left")

func (g *gate) guard(end End) End {
	return func(ctx context.Context, signal monitor.Signal, c monitor.SignalTarget) (monitor.Outcome, error) {
		if !g.open.TryRLock() {
			return monitor.Outcome{}, errLeft
		}
		defer g.open.RUnlock()
		return end(ctx, signal, c)
	}
}

// close waits for executions that are under way, and admits no more.
func (g *gate) close() { g.open.Lock() }
