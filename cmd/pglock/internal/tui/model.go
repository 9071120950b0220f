package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Model is the state of the view. Its methods have no effects other than the commands that they
// return.
type Model struct {
	ctx     context.Context
	options Options
	keys    keyMap
	styles  styles

	width, height int
	resizes       int

	snapshot *monitor.Snapshot // the latest
	lost     error             // why there has been none since; nil unless the server does not answer
	missed   int               // ticks since then
	taking   bool
	tickID   int // of the latest tick; earlier ones are ignored
	paused   bool

	// all says that snapshots have waits of every kind. opening says that the next one may choose the page.
	all, opening bool

	// query is what the user wants to see. table is the result of the latest query that has finished.
	query     tableQuery
	table     tableData
	arranging bool
	outdated  bool // the query or a snapshot has changed since arranging began

	cursors [pages]cursor
	filter  filter
	prompt  *prompt
	pane    *pane
	log     log

	// inspecting says that the session to signal is being looked up, and signalling that a signal is under way.
	inspecting, signalling bool
}

func newModel(ctx context.Context, o Options) Model {
	m := Model{
		ctx:      ctx,
		options:  o,
		styles:   newStyles(),
		width:    80,
		height:   24,
		snapshot: o.First,
		all:      o.All,
		query:    tableQuery{only: o.Filter},
	}
	m.keys = newKeyMap(o.End != nil, o.Seek != nil)
	m = m.choosePage()
	m.table = arrange(m.snapshot, m.query)
	return m
}

// choosePage shows the tree if something waits.
func (m Model) choosePage() Model {
	if m.query.only.Action(m.snapshot).Waiting > 0 {
		m.query.page = pageTree
	}
	return m
}

// Init starts the clock.
func (m Model) Init() tea.Cmd { return m.wait() }

// Update handles a message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	next, cmd := m.handle(msg)
	return next.refreshed(), cmd
}

func (m Model) handle(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.handleResize(msg.Width, msg.Height)
	case resizeMsg:
		if msg.resizes == m.resizes {
			return m, tea.ClearScreen
		}
	case tickMsg:
		return m.handleTick(msg)
	case snapshotMsg:
		return m.handleSnapshot(msg)
	case tableMsg:
		return m.handleTable(msg)
	case inspectionMsg:
		return m.handleInspection(msg)
	case signalMsg:
		return m.handleSignal(msg)
	case tea.KeyPressMsg:
		return m.handleKey(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			return m.handleInput(msg)
		}
	}
	return m, nil
}

// handleResize adapts the view to the terminal's size. The size may already have changed again, or change in steps as
// in tmux, so what is drawn meanwhile can end up in the wrong place. Later only differences are drawn, so the whole
// screen is redrawn after redrawDelay.
func (m Model) handleResize(width, height int) (Model, tea.Cmd) {
	m.width, m.height = width, height
	m.resizes++
	if m.resizes == 1 { // the first message with the terminal's size
		return m, nil
	}
	resizes := m.resizes
	return m, tea.Tick(redrawDelay, func(time.Time) tea.Msg { return resizeMsg{resizes} })
}

// refreshed updates the visible parts of the rows and of the pane.
func (m Model) refreshed() Model {
	page := m.table.query.page
	m.cursors[page] = m.cursors[page].scroll(len(m.table.rows), m.rowsHeight())
	m.pane = m.pane.refreshed(m)
	return m
}

func (m Model) handleTick(t tickMsg) (Model, tea.Cmd) {
	if t.id != m.tickID || m.paused {
		return m, nil
	}
	return m.takeSnapshots(false)
}

// takeSnapshots takes a snapshot, unless one is under way, and starts the next tick.
func (m Model) takeSnapshots(wanted bool) (Model, tea.Cmd) {
	m.tickID++
	if m.taking {
		return m.stillTaking(), m.wait()
	}
	m.taking = true
	return m, tea.Batch(m.wait(), m.takeSnapshot(wanted))
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

func (m Model) handleSnapshot(t snapshotMsg) (Model, tea.Cmd) {
	m.taking = false
	switch {
	case m.paused && !t.wanted:
		return m, nil
	case t.err != nil:
		return m.handleOutage(t.err), nil
	case m.lost != nil:
		m.log = m.log.add(t.snapshot.TakenAt, "the server answers again, after "+view.Age(t.snapshot.TakenAt.Sub(m.snapshot.TakenAt)))
		m.lost = nil
	}
	m.snapshot, m.missed = t.snapshot, 0
	if t.all == m.all {
		if m.opening {
			m = m.choosePage()
		}
		m.opening = false
		return m.rearrange()
	}
	next, cmd := m.rearrange()
	next, again := next.takeSnapshots(true) // the key for it was pressed meanwhile
	return next, tea.Batch(cmd, again)
}

// handleOutage notes an error. The last snapshot stays on the screen.
func (m Model) handleOutage(err error) Model {
	if m.lost == nil || errors.Is(m.lost, errSilent) {
		m = m.addLog("no answer: " + oneLine(err.Error()))
	}
	m.lost = err
	return m
}

// rearrange runs the query. Only one query runs at a time; if something changes meanwhile, it runs again afterwards.
func (m Model) rearrange() (Model, tea.Cmd) {
	if m.arranging {
		m.outdated = true
		return m, nil
	}
	m.arranging, m.outdated = true, false
	return m, m.arrange()
}

func (m Model) handleTable(a tableMsg) (Model, tea.Cmd) {
	m.arranging = false
	m.table = a.table
	page := a.table.query.page
	m.cursors[page] = m.cursors[page].find(m.table.rows)
	if m.outdated {
		return m.rearrange()
	}
	return m, nil
}
