package tui

import (
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// pane is a scrollable text that covers the rows. It is immutable.
type pane struct {
	title string
	// write returns the text in printable lines no wider than width. It is called when paneState changes.
	write func(m Model, width int) []string
	// session is the session that the text is about, if any.
	session *monitor.SessionID
	// tail reports that a text whose end is visible scrolls as it grows.
	tail bool

	text  []string
	state paneState // when the text was written
	first int       // first line on the screen
}

// paneState is what a text can depend on. It saves rewriting long texts for every key.
type paneState struct {
	snapshot      *monitor.Snapshot
	width, height int
	logged        int
	lost          bool
}

// open opens a pane.
func (m Model) open(p pane) (Model, tea.Cmd) {
	m.pane = &p
	return m, nil
}

// refreshed returns the pane with its current text, for the size of the screen.
func (p *pane) refreshed(m Model) *pane {
	if p == nil {
		return nil
	}
	next, height := *p, m.paneHeight()
	state := paneState{snapshot: m.snapshot, width: m.width, height: height, logged: m.log.counter, lost: m.lost != nil}
	if next.state != state {
		next.text, next.state = cutAll(p.write(m, m.width), m.width), state
		if p.tail && p.first >= len(p.text)-p.state.height {
			next.first = len(next.text)
		}
	}
	return next.scrolled(0, height)
}

func (p pane) scrolled(by, height int) *pane {
	p.first = clampTo(p.first+by, 0, max(0, len(p.text)-height))
	return &p
}

// paneHeight is the height that remains below the header, without title, status and footer.
func (m Model) paneHeight() int {
	const others = 3
	return max(1, m.height-len(m.header())-others)
}

func (p pane) lines(m Model) []string {
	last := min(p.first+m.paneHeight(), len(p.text))
	part := ""
	if last-p.first < len(p.text) {
		part = " lines " + number(p.first+1) + "-" + number(last) + " of " + number(len(p.text)) + " "
	}
	return append([]string{m.styles.key.Render(m.ruler(p.title, part))}, p.text[p.first:last]...)
}

// handlePaneKey handles a key while a pane is open.
func (m Model) handlePaneKey(press tea.KeyPressMsg) (Model, tea.Cmd) {
	if by, moves := m.movement(press, m.paneHeight()); moves {
		m.pane = m.pane.scrolled(by, m.paneHeight())
		return m, nil
	}
	if key.Matches(press, m.keys.closePane) || m.pane.title == helpTitle && key.Matches(press, m.keys.help) {
		m.pane = nil
		return m, nil
	}
	return m.handleCommonKey(press)
}

func (m Model) paneKeys() []key.Binding {
	k := m.keys
	return []key.Binding{k.closePane, k.up, k.down, k.pageDown, k.help}
}

// ruler returns a line across the screen with text at both ends.
func (m Model) ruler(left, right string) string {
	left = view.Cut("── "+left, max(0, m.width-view.Columns(right)-3)) + " "
	return view.Cut(left+strings.Repeat("─", max(0, m.width-view.Columns(left)-view.Columns(right)))+right, m.width)
}

// cutAll cuts lines that are wider than the screen.
func cutAll(lines []string, width int) []string {
	for i, line := range lines {
		lines[i] = view.Cut(line, width)
	}
	return lines
}
