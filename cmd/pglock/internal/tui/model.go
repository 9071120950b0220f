package tui

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
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

	// servers are all watched servers. server is a copy of the selected one, which is the server of the selected row
	// except in methods that work on another.
	servers  []server
	server       // storeServer makes changes of it permanent
	arrivals int // counts snapshots, including failed ones
	interval time.Duration
	tickID   int // of the latest tick; earlier ones are ignored
	paused   bool
	mouse    bool // the view uses the mouse, not the terminal

	// all says that snapshots have waits of every kind. opening says that the view may still choose its first page.
	all, opening bool

	// query is what the user wants to see. table is the result of the latest query that has finished.
	query     tableQuery
	table     tableData
	arranging bool
	outdated  bool // the query or a snapshot has changed since arranging began

	cursors  [pages]cursor
	followed *followed
	filter   filter
	prompt   *prompt
	pane     *pane
	log      log

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
		servers:  newServers(o),
		interval: o.Interval,
		mouse:    !o.NoMouse,
		all:      o.All,
		opening:  true,
		query:    tableQuery{only: o.Filter, waiting: o.Filter.Waiting},
	}
	ending := slices.ContainsFunc(m.servers, func(s server) bool { return s.End != nil })
	m.keys = newKeyMap(ending, o.Seek != nil)
	m.query.multiServer, m.query.only.Waiting = m.multiServer(), false
	m = m.choosePage()
	m.table = arrangeAll(m.sources(), m.query)
	return m.withServer(0)
}

// choosePage opens the view on the tree if something waits on a server that has answered. It chooses until all have answered
// or the user has chosen a page.
func (m Model) choosePage() Model {
	if !m.opening {
		return m
	}
	m.opening = false
	for _, s := range m.servers {
		if m.query.only.Headline(s.snapshot).Waiting > 0 {
			m.query.page = pageTree
		}
		m.opening = m.opening || !s.seen && s.lost == nil
	}
	return m
}

// Init starts the clock, and takes snapshots of servers that have none yet.
func (m Model) Init() tea.Cmd {
	commands := []tea.Cmd{m.wait()}
	for _, s := range m.servers {
		if s.taking {
			commands = append(commands, m.withServer(s.index).takeSnapshot(false))
		}
	}
	return tea.Batch(commands...)
}

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
	case holderMsg:
		return m.handleHolder(msg)
	case holderEndMsg:
		return m.handleHolderEnd(msg)
	case tea.MouseClickMsg:
		return m.handleClick(msg)
	case tea.MouseWheelMsg:
		return m.handleWheel(msg)
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
	m = m.withRowServer()
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

// takeSnapshots takes a snapshot of each server, unless one is under way, and starts the next tick.
func (m Model) takeSnapshots(wanted bool) (Model, tea.Cmd) {
	m.tickID++
	commands := []tea.Cmd{m.wait()}
	for i := range m.servers {
		if m = m.withServer(i); !m.taking {
			m.taking = true
			m = m.storeServer()
			commands = append(commands, m.takeSnapshot(wanted))
		}
	}
	return m.withRowServer(), tea.Batch(commands...)
}

func (m Model) handleSnapshot(t snapshotMsg) (Model, tea.Cmd) {
	m = m.withServer(t.server)
	m.arrivals++
	m.taking = false
	switch {
	case m.paused && !t.wanted:
		return m.storeServer(), nil
	case t.err != nil:
		return m.handleOutage(t.err).storeServer(), nil
	case m.lost != nil:
		m.log = m.log.add(t.snapshot.TakenAt, m.displayName()+" answers again, after "+view.Age(t.snapshot.TakenAt.Sub(m.snapshot.TakenAt)))
		m.trends = m.trends.withGap()
		m.lost = nil
	}
	m.snapshot, m.trends, m.seen = t.snapshot, m.trends.with(t.snapshot), true
	if m.followed != nil && m.followed.server == t.server {
		m.followed, m.log = m.followed.update(m.snapshot, m.log)
	}
	if t.all == m.all {
		return m.storeServer().choosePage().rearrange()
	}
	next, cmd := m.storeServer().rearrange()
	next, again := next.takeSnapshots(true) // the key for it was pressed meanwhile
	return next, tea.Batch(cmd, again)
}

// handleOutage notes an error. The last snapshot stays on the screen.
func (m Model) handleOutage(err error) Model {
	if m.lost == nil {
		m = m.addLog(m.noAnswer() + ": " + oneLine(err.Error()))
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
