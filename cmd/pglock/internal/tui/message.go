package tui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/monitor"
)

// snapshotMsg is the result of taking a snapshot.
type snapshotMsg struct {
	snapshot *monitor.Snapshot
	err      error
	// wanted reports that the user asked for this snapshot.
	wanted bool
	all    bool // with waits of every kind
}

// tickMsg says that the next snapshot is due. It is ignored unless id is that of the latest tick.
type tickMsg struct{ id int }

// resizeMsg follows a change of the terminal's size after redrawDelay. It is ignored if the size has changed again.
type resizeMsg struct{ resizes int }

// redrawDelay is longer than the 250 ms between the steps in which tmux resizes.
const redrawDelay = 500 * time.Millisecond

// tableMsg is the result of a query.
type tableMsg struct{ table tableData }

// snapshotTimeout bounds taking a snapshot.
const snapshotTimeout = 10 * time.Second

// takeSnapshot takes a snapshot.
func (m Model) takeSnapshot(wanted bool) tea.Cmd { return m.takeOne(wanted, monitor.SessionID{}) }

// takeOne takes a snapshot that has all locks of one session or process.
func (m Model) takeOne(wanted bool, of monitor.SessionID) tea.Cmd {
	ctx, take, all := m.ctx, m.options.Take, m.all
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		snapshot, err := take(ctx, all, of)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w (no answer within %v)", err, snapshotTimeout)
		}
		return snapshotMsg{snapshot, err, wanted, all}
	}
}

// wait waits until the next snapshot is due.
func (m Model) wait() tea.Cmd {
	id := m.tickID
	return tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return tickMsg{id} })
}

// arrange runs the current query on the current snapshot.
func (m Model) arrange() tea.Cmd {
	snapshot, question := m.snapshot, m.query
	return func() tea.Msg { return tableMsg{arrange(snapshot, question)} }
}
