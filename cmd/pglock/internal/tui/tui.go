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
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
)

// Options says what is watched, and how.
type Options struct {
	// Target shows people which server it is, without the password.
	Target string
	// First is the snapshot to begin with.
	First *monitor.Snapshot
	// Take takes another one. It is called from one goroutine at a time, and must end with its context.
	Take func(context.Context) (*monitor.Snapshot, error)
	// Events returns what happened to contended keys up to the last snapshot, the latest last. It may be nil, and must not
	// wait for anything.
	Events func() []journal.Event
	// Seek goes back or on in a recording; the next snapshot is from there. Without it the keys for that do not exist.
	Seek func(time.Duration) error
	// Interval is the pause between the beginnings of two snapshots.
	Interval time.Duration
	// Servers are several servers, in place of Target, First, Take, Events and End.
	Servers []Server
	// Filter says which locks are shown. Waiting can be changed with a key, Keys cannot.
	Filter view.Filter
	// End signals a session, and records that it did. It is called from one goroutine at a time. Without it the keys that
	// end sessions do not exist.
	End End
	// NoMouse leaves the mouse to the terminal until the user asks for it.
	NoMouse bool
	// Output is the terminal. Keys are read from the standard input if that is one, else from the controlling terminal.
	Output io.Writer
}

// Server is one of several servers, each of which is watched on its own: one that does not answer keeps no other waiting.
type Server struct {
	// Label tells it from the others, and is in [monitor.Server] of its snapshots. Target is as in Options.
	Label, Target string
	// First is the snapshot to begin with; nil if there is none yet.
	First *monitor.Snapshot
	// Take, Events and End are as in Options.
	Take   func(context.Context) (*monitor.Snapshot, error)
	Events func() []journal.Event
	End    End
}

// End signals a session. What came of it is in the outcome and in the error, as of [monitor.Send].
type End func(context.Context, monitor.Signal, monitor.SignalTarget) (monitor.Outcome, error)

// Run shows the view until the user leaves it or ctx ends, neither of which is an error. It gives the terminal back as
// it was, waits for the end of a signal that is under way, and returns the last snapshot, of several servers of the first.
func Run(ctx context.Context, o Options) (*monitor.Snapshot, error) {
	last, err := RunSeveral(ctx, o)
	return last[0].Snapshot, err
}

// Last is what was known of a server when the view was left.
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

// gate lets executions through, for as long as it is open. Bubble Tea does not wait for its commands.
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

// close waits for those that are under way, and lets no more through.
func (g *gate) close() { g.open.Lock() }
