package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// View returns the screen.
func (m Model) View() tea.View {
	screen := tea.NewView(view.ForTerminal(strings.Join(m.lines(), "\n")))
	screen.AltScreen = true
	if m.typing {
		screen.Cursor = tea.NewCursor(min(m.width-1, view.Columns(m.statusText())), m.height-2)
		screen.Cursor.Blink = false // which would send data all the time
	}
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
	return fill(append(lines, m.styles.dim.Render(view.Cut(m.statusText(), m.width)), m.footer()), m.height)
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
	columns := columnsOf(m.page, m.width)
	titles := strings.Repeat(" ", marker)
	for _, c := range columns {
		titles += view.Fit(c.title, c.width, c.right) + " "
	}
	lines := []string{m.tabs(), m.styles.dim.Render(view.Cut(strings.TrimRight(titles, " "), m.width))}
	if len(m.rows) == 0 {
		return append(lines, "", view.Cut("  "+m.emptyText(), m.width))
	}
	at := m.cursors[m.page]
	for i := at.first; i < min(at.first+m.rowsHeight(), len(m.rows)); i++ {
		lines = append(lines, m.row(columns, m.rows[i], i == at.at))
	}
	return lines
}

// rowsHeight is how many rows fit on the screen.
func (m Model) rowsHeight() int {
	const others = 4
	return max(1, m.height-len(m.header())-others)
}

func (m Model) row(columns []column, r row, selected bool) string {
	mark, style := []byte("  "), m.rowStyle(r)
	if r.deadlocked() {
		mark[1] = '!'
	}
	if selected {
		mark[0], style = '>', m.styles.selected(style)
	}
	l, cells := styledLine{left: m.width}, m.cells(r)
	l.add(string(mark), style)
	for _, c := range columns {
		of := style
		if wait := m.waited(r); c.waits && !selected && m.lost == nil && wait >= 0 {
			of = m.styles.ofWait(wait)
		}
		l.add(view.Fit(cells[c.cell], c.width, c.right), of)
		l.add(" ", style)
	}
	l.add(strings.Repeat(" ", l.left), style)
	return l.String()
}

// rowStyle marks what others wait for: the sessions at the roots, and those in a deadlock. What a server said before it was lost
// is grey.
func (m Model) rowStyle(r row) lipgloss.Style {
	switch {
	case m.lost != nil:
		return m.styles.dim
	case r.deadlocked():
		return m.styles.alert
	case r.isRoot():
		return m.styles.root
	}
	return lipgloss.NewStyle()
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

// tabs returns the line with the names of the pages, the current one in capitals, and which part of the rows is on the screen
// unless all are.
func (m Model) tabs() string {
	names := []string{" [1] Keys", " [2] Tree"}
	names[m.page] = strings.ToUpper(names[m.page])
	left, right := strings.Join(names, " "), ""
	if rows, height, at := len(m.rows), m.rowsHeight(), m.cursors[m.page]; rows > height {
		right = fmt.Sprintf("%s-%s of %s  ", number(at.first+1), number(min(at.first+height, rows)), number(rows))
	}
	if view.Columns(left)+view.Columns(right) > m.width {
		right = ""
	}
	return view.Fit(justify(left, right, m.width), m.width, false)
}

// emptyText says why there are no rows.
func (m Model) emptyText() string {
	switch {
	case m.filter != "":
		return "nothing matches the filter (Esc removes it)"
	case m.page == pageTree:
		return "nothing waits"
	}
	return m.text.Total()
}

// statusText returns the filter, or else what the last key did.
func (m Model) statusText() string {
	switch {
	case m.typing:
		return "/" + view.Printable(m.filter)
	case m.filter != "":
		return fmt.Sprintf(" filter %q  %s", view.Printable(m.filter), view.Printable(m.status))
	}
	return " " + view.Printable(m.status)
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
	all := []key.Binding{k.help, k.quit, k.filter, k.open, k.pause, k.cancel, k.terminate, k.next, k.fold, k.info}
	if m.pane != nil {
		all = []key.Binding{k.closing, k.up, k.down, k.pageDown, k.cancel, k.terminate}
	}
	return slices.DeleteFunc(all, func(b key.Binding) bool { return !b.Enabled() })
}

// number formats an integer with commas.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func clock(t time.Time) string { return t.Format("15:04:05") }
