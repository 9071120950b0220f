package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// wheelLines is how many rows or lines a step of the wheel scrolls.
const wheelLines = 3

// toggleMouse leaves the mouse to the terminal, which can select text with it, or takes it back.
func (m Model) toggleMouse() Model {
	m.mouse = !m.mouse
	if m.mouse {
		return m.say("the mouse selects rows, pages and sort orders")
	}
	return m.say("the mouse is left to the terminal (m takes it back)")
}

func (m Model) mouseMode() tea.MouseMode {
	if m.mouse {
		return tea.MouseModeCellMotion
	}
	return tea.MouseModeNone
}

// wheeled scrolls the pane or the rows; among these the selection moves, as with the keys.
func (m Model) wheeled(wheel tea.MouseWheelMsg) (Model, tea.Cmd) {
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
	page := m.board.question.page
	m.cursors[page] = m.cursors[page].move(by, m.board.rows)
	return m, nil
}

// clicked selects what is below the mouse, but nothing below a pane or during input: signals are confirmed with keys
// only.
func (m Model) clicked(click tea.MouseClickMsg) (Model, tea.Cmd) {
	if click.Button != tea.MouseLeft || m.pane != nil || m.typing != nil {
		return m, nil
	}
	const tabs, titles, rows = 0, 1, 2 // below the header
	switch y := click.Y - len(m.header()); {
	case y == tabs:
		return m.clickedTab(click.X)
	case y == titles:
		return m.clickedTitle(click.X)
	case y >= rows && y < rows+m.rowsHeight():
		return m.clickedRow(y - rows)
	}
	return m, nil
}

func (m Model) clickedTab(x int) (Model, tea.Cmd) {
	end := 0
	for i, name := range m.tabNames() {
		end += view.Columns(name) + 1
		if x < end {
			return m.turn(page(i))
		}
	}
	return m, nil
}

// clickedTitle sorts by the column if possible, and in the reverse order if it is already sorted so.
func (m Model) clickedTitle(x int) (Model, tea.Cmd) {
	page, end := m.board.question.page, marker
	for _, c := range m.columns(page) {
		if end += c.width + 1; x >= end {
			continue
		}
		for i, order := range m.board.question.orders() {
			switch {
			case !order.sorts(c.title):
				continue
			case m.question.order[page] == i:
				m.question.reversed[page] = !m.question.reversed[page]
			default:
				m.question.order[page], m.question.reversed[page] = i, false
			}
			return m.ask()
		}
		return m, nil
	}
	return m, nil
}

// clickedRow selects a row, and opens the one that was selected by a click or key before.
func (m Model) clickedRow(line int) (Model, tea.Cmd) {
	page := m.board.question.page
	at := m.cursors[page]
	chosen := at.first + line
	switch {
	case chosen >= len(m.board.rows):
		return m, nil
	case at.chosen != nil && chosen == at.at:
		return m.openDetails()
	}
	m.cursors[page] = at.move(chosen-at.at, m.board.rows)
	return m, nil
}

// tabNames are the names of the pages above the rows.
func (m Model) tabNames() []string {
	names := []string{" 1 keys ", " 2 tree ", " 3 sessions "}
	shown := m.board.question.page
	names[shown] = "[" + strings.TrimSpace(names[shown]) + "]"
	return names
}
