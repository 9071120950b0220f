package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// View returns the screen.
func (m Model) View() tea.View {
	screen := tea.NewView(view.ForTerminal(strings.Join(m.lines(), "\n")))
	screen.AltScreen = true
	screen.Cursor = m.textCursor()
	return screen
}

// lines returns exactly as many lines as the screen has.
func (m Model) lines() []string {
	var lines []string
	for _, l := range m.header() {
		lines = append(lines, l.style.Render(view.Fit(l.text, m.width, false)))
	}
	lines = append(lines, m.body()...)
	const below = 2
	lines = fill(lines, m.height-below)
	return fill(append(lines, m.statusLine(), m.footer()), m.height)
}

// fill cuts or pads lines to n lines.
func fill(lines []string, n int) []string {
	n = max(n, 0)
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines[:n]
}

// body returns the open pane, or else the rows.
func (m Model) body() []string {
	if m.pane != nil {
		return m.pane.lines(m)
	}
	page := m.table.query.page
	columns := fitColumns(page, m.width)
	lines := []string{m.tabs(), m.styles.dim.Render(m.titles(columns))}
	if len(m.table.rows) == 0 {
		return append(lines, "", view.Cut("  "+m.emptyText(), m.width))
	}
	at := m.cursors[page]
	for i := at.first; i < min(at.first+m.rowsHeight(), len(m.table.rows)); i++ {
		lines = append(lines, m.row(columns, i, i == at.at))
	}
	return lines
}

// rowsHeight is how many rows fit on the screen.
func (m Model) rowsHeight() int {
	const others = 4
	return max(1, m.height-len(m.header())-others)
}

// titles returns the line with the titles of the columns.
func (m Model) titles(columns []column) string {
	line := strings.Repeat(" ", marker)
	for _, c := range columns {
		line += view.Fit(c.title, c.width, c.alignRight) + " "
	}
	return view.Cut(strings.TrimRight(line, " "), m.width)
}

func (m Model) row(columns []column, i int, selected bool) string {
	r := m.table.rows[i]
	mark, style := []byte("  "), m.rowStyle(r)
	if m.deadlocked(r) {
		mark[1] = '!'
	}
	if selected {
		mark[0], style = '>', m.styles.selected(style)
	}
	l := styledLine{left: m.width}
	l.add(string(mark), style)
	for i, c := range columns {
		if i > 0 {
			l.add(" ", style)
		}
		of := style
		if c.wait != nil && !selected && m.lost == nil && c.wait(m, r) >= 0 {
			of = m.styles.ofWait(c.wait(m, r))
		}
		l.add(view.Fit(c.cell(m, r), c.width, c.alignRight), of)
	}
	l.add(strings.Repeat(" ", l.left), style)
	return l.String()
}

// rowStyle marks what others wait for: the sessions at the roots, and those in a deadlock. What a server said before it was
// lost is grey.
func (m Model) rowStyle(r row) lipgloss.Style {
	switch {
	case m.lost != nil:
		return m.styles.dim
	case m.deadlocked(r):
		return m.styles.alert
	case r.isRoot():
		return m.styles.root
	}
	return lipgloss.NewStyle()
}

// isRoot reports whether others wait for the session of a row, not only as they do in normal work, and it waits for none.
func (r row) isRoot() bool {
	if r.session == nil || r.session.node == nil || r.session.wait() != nil {
		return false
	}
	return slices.ContainsFunc(r.session.node.Children, func(n *monitor.Node) bool { return n.Wait == nil || !n.Wait.Expected })
}

// styledLine is a line of cells, which ends at the edge of the screen.
type styledLine struct {
	strings.Builder
	left int // columns
}

// add adds printable text, as much of it as fits.
func (l *styledLine) add(text string, style lipgloss.Style) {
	if text = view.Cut(text, l.left); text != "" {
		l.left -= view.Columns(text)
		l.WriteString(style.Render(text))
	}
}

// deadlocked reports whether a row is about a session or key that is part of a cycle.
func (m Model) deadlocked(r row) bool {
	if r.session != nil {
		return r.session.node != nil && r.session.node.Deadlock
	}
	return slices.ContainsFunc(m.table.snapshot.Cycles, func(c monitor.Cycle) bool { return inCycle(c, r.lock) })
}

// tabs returns the line with the names of the pages and, if there is room, which rows are shown.
func (m Model) tabs() string {
	left, right := strings.Join(m.tabNames(), " "), m.rangeText()
	if view.Columns(left)+view.Columns(right) > m.width {
		right = ""
	}
	return view.Fit(justify(left, right, m.width), m.width, false)
}

// tabNames returns the names of the pages with their keys, the current one in capitals.
func (m Model) tabNames() []string {
	names := []string{" [1] Keys", " [2] Tree"}
	shown := m.table.query.page
	names[shown] = strings.ToUpper(names[shown])
	return names
}

// rangeText says which part of the rows is on the screen, unless all are.
func (m Model) rangeText() string {
	rows, height, at := len(m.table.rows), m.rowsHeight(), m.cursors[m.table.query.page]
	if rows <= height {
		return ""
	}
	return fmt.Sprintf("%s-%s of %s  ", number(at.first+1), number(min(at.first+height, rows)), number(rows))
}

// emptyText says why there are no rows.
func (m Model) emptyText() string {
	t := m.table.totals
	switch {
	case t.keys == 0 && t.excluded > 0:
		return "no session holds or waits for the chosen keys; " + plural(t.excluded, "other") + " not shown"
	case m.table.query.filter != nil && t.keys+t.waiters > 0:
		return "nothing matches the filter (Esc removes it)"
	case t.keys == 0 && t.others > 0:
		return "no advisory locks; " + plural(t.others, "session") + " waiting for other locks (2 shows them)"
	case t.elsewhere > 0 && (t.keys == 0 || m.table.query.page == pageTree):
		return "for other locks wait " + plural(t.elsewhere, "session") + " (a shows them)"
	case t.keys == 0:
		return "no locks"
	}
	return "nothing waits"
}

// statusLine returns the input, or else what limits the rows and the last log entry.
func (m Model) statusLine() string {
	if m.prompt != nil {
		return view.Cut(m.prompt.line(), m.width)
	}
	var parts []string
	if m.filter.text != "" {
		parts = append(parts, fmt.Sprintf("filter /%s/", view.Printable(m.filter.text)))
	}
	if m.all {
		parts = append(parts, "all waits")
	}
	if n := m.table.totals.filtered; n > 0 && len(parts) > 0 {
		parts = append(parts, plural(n, "key")+" not shown")
	}
	if latest := m.log.latest(m.snapshot.TakenAt); latest != "" {
		parts = append(parts, latest)
	}
	return m.styles.dim.Render(view.Cut(" "+strings.Join(parts, "  "), m.width))
}

// footer shows the most important keys, as many as fit.
func (m Model) footer() string {
	var shown []string
	left := m.width + 1 // the last needs no space behind it
	for _, binding := range m.footerKeys() {
		help := binding.Help()
		if left -= view.Columns(" " + help.Key + " " + help.Desc + " "); left < 0 {
			break
		}
		shown = append(shown, " "+m.styles.key.Render(help.Key)+" "+help.Desc)
	}
	return strings.Join(shown, " ")
}

func (m Model) footerKeys() []key.Binding {
	k := m.keys
	switch {
	case m.prompt != nil && m.prompt.question != nil:
		return []key.Binding{k.confirm, k.goBack}
	case m.prompt != nil:
		return []key.Binding{k.accept, k.restore}
	case m.pane != nil:
		return m.paneKeys()
	}
	return slices.DeleteFunc([]key.Binding{k.help, k.quit, k.filter, k.open, k.pause, k.cancel, k.terminate,
		k.next, k.toggleRow, k.allWaits, k.fold, k.info, k.journal, k.log}, func(b key.Binding) bool { return !b.Enabled() })
}

// textCursor returns the position of the cursor in the input, or nil if there is no input.
func (m Model) textCursor() *tea.Cursor {
	if m.prompt == nil {
		return nil
	}
	cursor := m.prompt.input.Cursor()
	if cursor != nil {
		cursor.Position.Y = m.height - 2
		cursor.Blink = false
	}
	return cursor
}
