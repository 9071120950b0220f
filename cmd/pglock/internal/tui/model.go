package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Model is the state of the view. Its methods have no effects but the commands that they return.
type Model struct {
	ctx     context.Context
	options Options
	keys    keyMap
	styles  styles

	width, height int
	resizes       int

	// snapshot is the latest, and trends the past up to it.
	snapshot *monitor.Snapshot
	trends   trends
	lost     error // why there has been no snapshot since
	taking   bool
	interval time.Duration
	pace     int // counts changes of the pace, so that older ticks do nothing
	paused   bool

	// question is what the user wants to see, and board the latest answer, which follows as fast as it can.
	question  question
	board     board
	arranging bool
	stale     bool // another question or snapshot has come since

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
		keys:     newKeyMap(o.End != nil, o.Seek != nil),
		styles:   newStyles(),
		width:    80,
		height:   24,
		snapshot: o.First,
		trends:   trends{}.with(o.First),
		interval: o.Interval,
		question: question{only: view.Filter{Keys: o.Filter.Keys}, waiting: o.Filter.Waiting},
	}
	m.board = arrange(m.snapshot, m.question)
	return m
}

// Init starts the clock.
func (m Model) Init() tea.Cmd { return m.wait() }

// Update takes note of what happened.
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
	case tea.KeyPressMsg:
		return m.pressed(msg)
	case tea.PasteMsg:
		if m.typing != nil {
			return m.typed(msg)
		}
	}
	return m, nil
}

// resized fits the view to the terminal. A terminal may be larger or smaller already than it has told, or change its size
// in steps as tmux does; what is drawn meanwhile then lies beside its place, and only what differs is drawn later. So
// after a while the whole screen is drawn anew.
func (m Model) resized(width, height int) (Model, tea.Cmd) {
	m.width, m.height = width, height
	m.resizes++
	if m.resizes == 1 { // this is how a terminal introduces itself
		return m, nil
	}
	resizes := m.resizes
	return m, tea.Tick(resizeSettles, func(time.Time) tea.Msg { return resizeSettled{resizes} })
}

// settled has what depends on everything else in order: what of the rows and of the pane is on the screen.
func (m Model) settled() Model {
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

// look takes a snapshot, unless one is under way, and starts the clock anew.
func (m Model) look(wanted bool) (Model, tea.Cmd) {
	m.pace++
	if m.taking {
		return m, m.wait()
	}
	m.taking = true
	return m, tea.Batch(m.take(wanted), m.wait())
}

func (m Model) took(t taken) (Model, tea.Cmd) {
	m.taking = false
	switch {
	case m.paused && !t.wanted:
		return m, nil
	case t.err != nil:
		return m.missed(t.err), nil
	case m.lost != nil:
		m.log = m.log.add(t.snapshot.TakenAt, "the server answers again, after "+view.Age(t.snapshot.TakenAt.Sub(m.snapshot.TakenAt)))
		m.trends = m.trends.withGap()
		m.lost = nil
	}
	m.snapshot, m.trends = t.snapshot, m.trends.with(t.snapshot)
	m.followed, m.log = m.followed.see(m.snapshot, m.log)
	return m.ask()
}

// missed leaves the last snapshot there, below the reason why it is old.
func (m Model) missed(err error) Model {
	if m.lost == nil {
		m = m.say("no answer: " + oneLine(err.Error()))
	}
	m.lost = err
	return m
}

// ask has the question answered. One answer at a time is worked on: what changes meanwhile is asked for afterwards.
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
