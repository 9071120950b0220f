package tui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/monitor"
)

// taken is the outcome of an attempt to take a snapshot.
type taken struct {
	snapshot *monitor.Snapshot
	err      error
	// wanted says that the user asked for this one.
	wanted bool
	server int
}

// tick says that the next snapshot is due, unless the interval has changed since.
type tick struct{ pace int }

// resizeSettled says that the terminal's size changed a while ago, unless it has changed again since.
type resizeSettled struct{ resizes int }

// resizeSettles is longer than tmux takes for a step, 250 ms.
const resizeSettles = 500 * time.Millisecond

// arranged is the answer to a question.
type arranged struct{ board board }

// answerTimeout is how long a server may take for a snapshot before the view says that it does not answer.
const answerTimeout = 10 * time.Second

// take takes a snapshot of the selected server.
func (m Model) take(wanted bool) tea.Cmd {
	ctx, takeSnapshot, server := m.ctx, m.server.Take, m.server.index
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		snapshot, err := takeSnapshot(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w (no answer within %v)", err, answerTimeout)
		}
		return taken{snapshot, err, wanted, server}
	}
}

// wait waits for the next snapshot to be due.
func (m Model) wait() tea.Cmd {
	pace := m.pace
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return tick{pace} })
}

// arrange answers the current question about the current snapshots.
func (m Model) arrange() tea.Cmd {
	parts, question := m.parts(), m.question
	return func() tea.Msg { return arranged{arrangeAll(parts, question)} }
}

// parts are the sources of a board.
func (m Model) parts() []part {
	all := make([]part, len(m.servers))
	for i, s := range m.servers {
		all[i] = part{server: i, label: s.Label, snapshot: s.snapshot}
	}
	return all
}
