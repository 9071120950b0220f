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

	// servers are all watched servers. server is a copy of the selected one: the server of the selected row, or of the
	// text or answer that is being made.
	servers  []server
	server       // only kept changes it permanently
	arrivals int // counts outcomes of attempts to take snapshots
	interval time.Duration
	pace     int // counts changes of the interval, so that older ticks do nothing
	paused   bool
	mouse    bool // the view uses the mouse, not the terminal

	// question is what the user wants to see, and board the latest answer, which may lag behind.
	question  question
	board     board
	arranging bool
	stale     bool // the question or a snapshot has changed since

	cursors  [pages]cursor
	followed *followed
	filter   filter
	typing   *prompt
	pane     *pane
	log      log

	executing bool // a signal is under way
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
		question: question{only: view.Filter{Keys: o.Filter.Keys}, waiting: o.Filter.Waiting},
	}
	ending := slices.ContainsFunc(m.servers, func(s server) bool { return s.End != nil })
	m.keys = newKeyMap(ending, o.Seek != nil)
	m.question.several = m.several()
	m.board = arrangeAll(m.parts(), m.question)
	return m.on(0)
}

// Init starts the clock, and takes snapshots of servers that have none yet.
func (m Model) Init() tea.Cmd {
	commands := []tea.Cmd{m.wait()}
	for _, s := range m.servers {
		if s.taking {
			commands = append(commands, m.on(s.index).take(false))
		}
	}
	return tea.Batch(commands...)
}

// Update handles a message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	next, cmd := m.handle(msg)
	return next.settled(), cmd
}

func (m Model) handle(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.resized(msg.Width, msg.Height)
	case resizeSettled:
		if msg.resizes == m.resizes {
			return m, tea.ClearScreen
		}
	case tick:
		return m.due(msg)
	case taken:
		return m.took(msg)
	case arranged:
		return m.answered(msg)
	case inspected:
		return m.inspect(msg)
	case executed:
		return m.executed(msg)
	case tea.MouseClickMsg:
		return m.clicked(msg)
	case tea.MouseWheelMsg:
		return m.wheeled(msg)
	case tea.KeyPressMsg:
		return m.pressed(msg)
	case tea.PasteMsg:
		if m.typing != nil {
			return m.typed(msg)
		}
	}
	return m, nil
}

// resized fits the view to the terminal. The terminal may already have another size than it reported, or change it in
// steps as tmux does; what is drawn meanwhile lands in the wrong place, and later only differences are drawn. So after
// a while the whole screen is redrawn.
func (m Model) resized(width, height int) (Model, tea.Cmd) {
	m.width, m.height = width, height
	m.resizes++
	if m.resizes == 1 { // the first message with the terminal's size
		return m, nil
	}
	resizes := m.resizes
	return m, tea.Tick(resizeSettles, func(time.Time) tea.Msg { return resizeSettled{resizes} })
}

// settled updates what depends on everything else: the visible parts of the rows and of the pane.
func (m Model) settled() Model {
	m = m.focused()
	page := m.board.question.page
	m.cursors[page] = m.cursors[page].scroll(len(m.board.rows), m.rowsHeight())
	m.pane = m.pane.renewed(m)
	return m
}

func (m Model) due(t tick) (Model, tea.Cmd) {
	if t.pace != m.pace || m.paused {
		return m, nil
	}
	return m.look(false)
}

// look takes a snapshot of each server for which none is under way, and restarts the clock.
func (m Model) look(wanted bool) (Model, tea.Cmd) {
	m.pace++
	commands := []tea.Cmd{m.wait()}
	for i := range m.servers {
		if m = m.on(i); !m.taking {
			m.taking = true
			m = m.kept()
			commands = append(commands, m.take(wanted))
		}
	}
	return m.focused(), tea.Batch(commands...)
}

func (m Model) took(t taken) (Model, tea.Cmd) {
	m = m.on(t.server)
	m.arrivals++
	m.taking = false
	switch {
	case m.paused && !t.wanted:
		return m.kept(), nil
	case t.err != nil:
		return m.missed(t.err).kept(), nil
	case m.lost != nil:
		m.log = m.log.add(t.snapshot.TakenAt, m.who()+" answers again, after "+view.Age(t.snapshot.TakenAt.Sub(m.snapshot.TakenAt)))
		m.trends = m.trends.withGap()
		m.lost = nil
	}
	m.snapshot, m.trends, m.seen = t.snapshot, m.trends.with(t.snapshot), true
	if m.followed != nil && m.followed.server == t.server {
		m.followed, m.log = m.followed.see(m.snapshot, m.log)
	}
	return m.kept().ask()
}

// missed keeps the last snapshot on the screen, below the reason for its age.
func (m Model) missed(err error) Model {
	if m.lost == nil {
		m = m.say(m.silence() + ": " + oneLine(err.Error()))
	}
	m.lost = err
	return m
}

// ask has the question answered. Only one answer is computed at a time; after it, changes are asked for.
func (m Model) ask() (Model, tea.Cmd) {
	if m.arranging {
		m.stale = true
		return m, nil
	}
	m.arranging, m.stale = true, false
	return m, m.arrange()
}

func (m Model) answered(a arranged) (Model, tea.Cmd) {
	m.arranging = false
	m.board = a.board
	page := a.board.question.page
	m.cursors[page] = m.cursors[page].find(m.board.rows)
	if m.stale {
		return m.ask()
	}
	return m, nil
}
