package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// wheelLines is how many lines a step of the wheel scrolls.
const wheelLines = 3

// toggleMouse turns the use of the mouse on or off. While it is off, the terminal can select text.
func (m Model) toggleMouse() Model {
	m.mouse = !m.mouse
	if m.mouse {
		return m.addLog("the mouse selects rows, pages and sort orders")
	}
	return m.addLog("the mouse is left to the terminal (m takes it back)")
}

func (m Model) mouseMode() tea.MouseMode {
	if m.mouse {
		return tea.MouseModeCellMotion
	}
	return tea.MouseModeNone
}

// handleWheel scrolls the pane, or moves the selection.
func (m Model) handleWheel(wheel tea.MouseWheelMsg) (Model, tea.Cmd) {
	by := wheelLines
	switch wheel.Button {
	case tea.MouseWheelUp:
		by = -wheelLines
	case tea.MouseWheelDown:
	default:
		return m, nil
	}
	if m.pane != nil {
		m.pane = m.pane.scrolled(by, m.paneHeight())
		return m, nil
	}
	page := m.table.query.page
	m.cursors[page] = m.cursors[page].move(by, m.table.rows)
	return m, nil
}

// handleClick selects what is below the mouse. It ignores clicks while a pane or an input is open, so that signals are
// confirmed with keys only.
func (m Model) handleClick(click tea.MouseClickMsg) (Model, tea.Cmd) {
	if click.Button != tea.MouseLeft || m.pane != nil || m.prompt != nil {
		return m, nil
	}
	const tabs, titles, rows = 0, 1, 2 // below the header
	switch y := click.Y - len(m.header()); {
	case y == tabs:
		return m.clickTab(click.X)
	case y == titles:
		return m.clickTitle(click.X)
	case y >= rows && y < rows+m.rowsHeight():
		return m.clickRow(y - rows)
	}
	return m, nil
}

func (m Model) clickTab(x int) (Model, tea.Cmd) {
	end := 0
	for i, name := range m.tabNames() {
		end += view.Columns(name) + 1
		if x < end {
			return m.showPage(page(i))
		}
	}
	return m, nil
}

// clickTitle sorts by the column if possible. A second click reverses the order.
func (m Model) clickTitle(x int) (Model, tea.Cmd) {
	page, end := m.table.query.page, marker
	for _, c := range m.columns(page) {
		if end += c.width + 1; x >= end {
			continue
		}
		for i, order := range m.table.query.orders() {
			switch {
			case !order.sorts(c.title):
				continue
			case m.query.order[page] == i:
				m.query.reversed[page] = !m.query.reversed[page]
			default:
				m.query.order[page], m.query.reversed[page] = i, false
			}
			return m.rearrange()
		}
		return m, nil
	}
	return m, nil
}

// clickRow selects a row, or opens it if the user has already selected it.
func (m Model) clickRow(line int) (Model, tea.Cmd) {
	page := m.table.query.page
	at := m.cursors[page]
	chosen := at.first + line
	switch {
	case chosen >= len(m.table.rows):
		return m, nil
	case at.chosen != nil && chosen == at.at:
		return m.openDetails()
	}
	m.cursors[page] = at.move(chosen-at.at, m.table.rows)
	return m, nil
}

// tabNames returns the names of the pages with their keys, the current one in capitals.
func (m Model) tabNames() []string {
	names := []string{" [1] Keys", " [2] Tree", " [3] Sessions"}
	shown := m.table.query.page
	names[shown] = strings.ToUpper(names[shown])
	return names
}
