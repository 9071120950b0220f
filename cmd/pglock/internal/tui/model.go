package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Model is the state of the view. Its methods have no effects other than the commands that they return.
type Model struct {
	ctx     context.Context
	options Options
	keys    keyMap
	styles  styles

	width, height int
	resizes       int

	snapshot *monitor.Snapshot // the latest
	text     *view.Page        // of the snapshot
	lost     error             // why there has been none since; nil unless the server does not answer
	missed   int               // ticks since then
	taking   bool
	tickID   int // of the latest tick; earlier ones are ignored
	paused   bool

	page    page
	flat    bool // the tree has a row for each of several waiters that are alike
	rows    []row
	cursors [pages]cursor
	filter  string
	typing  bool   // a filter
	pane    *pane  // covers the rows
	status  string // what the last key did, if that is not on the screen
}

// page is one of the pages of the view.
type page int

const (
	pageKeys page = iota
	pageTree
	pages
)

func newModel(ctx context.Context, o Options) Model {
	m := Model{ctx: ctx, options: o, keys: newKeyMap(o), styles: newStyles(), width: 80, height: 24}
	m = m.show(o.First)
	if m.text.Action.Waiting > 0 {
		m.page = pageTree
	}
	return m.arranged()
}

// show shows a snapshot.
func (m Model) show(s *monitor.Snapshot) Model {
	m.snapshot, m.text = s, view.NewPage(s, m.options.Filter, m.options.Server)
	return m.arranged()
}

// Init starts the clock.
func (m Model) Init() tea.Cmd { return m.wait() }

// Update handles a message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	next, cmd := m.handle(msg)
	next.cursors[next.page] = next.cursors[next.page].scroll(len(next.rows), next.rowsHeight())
	next.pane = next.pane.refreshed(next)
	return next, cmd
}

// snapshotMsg is the result of taking a snapshot.
type snapshotMsg struct {
	snapshot *monitor.Snapshot
	err      error
	wanted   bool // the user asked for it
}

// tickMsg says that the next snapshot is due. It is ignored unless id is that of the latest tick.
type tickMsg struct{ id int }

// resizeMsg follows a change of the terminal's size after redrawDelay. It is ignored if the size has changed again.
type resizeMsg struct{ resizes int }

// redrawDelay is longer than the 250 ms between the steps in which tmux resizes.
const redrawDelay = 500 * time.Millisecond

// endedMsg says that the user has seen what became of a signal.
type endedMsg struct{ err error }

func (m Model) handle(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.handleResize(msg.Width, msg.Height)
	case resizeMsg:
		if msg.resizes == m.resizes {
			return m, tea.ClearScreen
		}
	case tickMsg:
		if msg.id == m.tickID && !m.paused {
			return m.takeSnapshots(false)
		}
	case snapshotMsg:
		return m.handleSnapshot(msg), nil
	case endedMsg:
		if m.status = ""; msg.err != nil {
			m.status = oneLine(msg.err.Error())
		}
		return m.takeSnapshots(true)
	case tea.KeyPressMsg:
		return m.handleKey(msg)
	case tea.PasteMsg:
		if m.typing {
			m.filter += oneLine(msg.Content)
			return m.arranged(), nil
		}
	}
	return m, nil
}

// handleResize adapts the view to the terminal's size. The size may already have changed again, or change in steps as in tmux, so
// what is drawn meanwhile can end up in the wrong place. Later only differences are drawn, so the whole screen is redrawn after
// redrawDelay.
func (m Model) handleResize(width, height int) (Model, tea.Cmd) {
	m.width, m.height = width, height
	m.resizes++
	if m.resizes == 1 { // the first message with the terminal's size
		return m, nil
	}
	resizes := m.resizes
	return m, tea.Tick(redrawDelay, func(time.Time) tea.Msg { return resizeMsg{resizes} })
}

// snapshotTimeout bounds taking a snapshot.
const snapshotTimeout = 10 * time.Second

// takeSnapshots takes a snapshot, unless one is under way, and starts the next tick.
func (m Model) takeSnapshots(wanted bool) (Model, tea.Cmd) {
	m.tickID++
	if m.taking {
		return m.stillTaking(), m.wait()
	}
	m.taking = true
	ctx, take := m.ctx, m.options.Take
	return m, tea.Batch(m.wait(), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		snapshot, err := take(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w (no answer within %v)", err, snapshotTimeout)
		}
		return snapshotMsg{snapshot, err, wanted}
	})
}

// wait waits until the next snapshot is due.
func (m Model) wait() tea.Cmd {
	id := m.tickID
	return tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return tickMsg{id} })
}

// stillTaking counts the ticks for which a snapshot has been under way. What is older than three intervals is not the present.
func (m Model) stillTaking() Model {
	const most = 3
	m.missed++
	if m.lost == nil && m.missed >= most && m.silence() >= time.Second && m.options.Seek == nil {
		m.lost = errSilent
	}
	return m
}

var errSilent = errors.New("it has not answered yet")

// silence is for how long there has been no snapshot.
func (m Model) silence() time.Duration { return time.Duration(m.missed) * m.options.Interval }

// handleSnapshot shows a snapshot. If there is none, the last one stays on the screen.
func (m Model) handleSnapshot(t snapshotMsg) Model {
	m.taking = false
	switch {
	case m.paused && !t.wanted:
		return m
	case t.err != nil:
		m.lost = t.err
		return m
	case m.lost != nil:
		m.status = "the server answers again, after " + display.Age(t.snapshot.TakenAt.Sub(m.snapshot.TakenAt))
	}
	m.lost, m.missed = nil, 0
	return m.show(t.snapshot)
}

// seek moves in a recording and shows the snapshot there. It moves in the command that takes the snapshot, since moving can be
// slow.
func (m Model) seek(by time.Duration) (Model, tea.Cmd) {
	if m.taking {
		return m, nil
	}
	seek, take := m.options.Seek, m.options.Take
	m.options.Take = func(ctx context.Context) (*monitor.Snapshot, error) {
		if err := seek(by); err != nil {
			return nil, err
		}
		return take(ctx)
	}
	next, cmd := m.takeSnapshots(true)
	next.options.Take = take
	return next, cmd
}

// end leaves the terminal to what signals the selected session.
func (m Model) end(signal string) (Model, tea.Cmd) {
	session := m.selectedSession()
	switch {
	case session == nil:
		m.status = "choose one session (u shows each of several waiters)"
		return m, nil
	case session.Prepared():
		m.status = "it has no process to signal: " + view.EndPrepared(*session)
		return m, nil
	}
	end, id := m.options.End, session.ID()
	return m, tea.Exec(&dialog{run: func(input io.Reader) error { return end(input, signal, id) }}, func(err error) tea.Msg { return endedMsg{err} })
}

// dialog is a [tea.ExecCommand].
type dialog struct {
	run   func(io.Reader) error
	input io.Reader
}

func (d *dialog) Run() error           { return d.run(d.input) }
func (d *dialog) SetStdin(r io.Reader) { d.input = r }
func (d *dialog) SetStdout(io.Writer)  {}
func (d *dialog) SetStderr(io.Writer)  {}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
