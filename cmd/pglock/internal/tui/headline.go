package tui

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// The smallest heights of a terminal in which the header has more than one line about the root, the statement that it runs or
// ran, and the command that ends it.
const (
	sentenceHeight  = 16
	statementHeight = 20
	commandHeight   = 30
)

// headline returns the lines about the root, or one that says that nothing waits.
func (m Model) headline() []styled {
	if m.lost != nil {
		return nil // what was to be done may not be any more
	}
	h, plain := m.table.headline, lipgloss.NewStyle()
	text := view.Wrap(view.Printable(h.String()), m.width-1, "  ")
	if most := 2; m.height < sentenceHeight {
		text = []string{view.Cut(view.Printable(h.String()), m.width-1)}
	} else if len(text) > most {
		text = append(text[:most-1], view.Cut(text[most-1]+" "+text[most], m.width-1))
	}
	style := m.styles.root
	if h.Waiting == 0 {
		style = plain
	}
	var lines []styled
	for _, line := range text {
		lines = append(lines, styled{" " + line, style})
	}
	if m.pane != nil {
		return lines
	}
	if statement := view.StatementLine(h); statement != "" && m.height >= statementHeight {
		lines = append(lines, styled{view.Cut("   "+statement, m.width), plain})
	}
	if m.options.End != nil && m.height >= commandHeight {
		command := "   " + view.EndCommand(h, m.options.Flags)
		if strings.TrimSpace(command) != "" && view.Columns(command) <= m.width { // cut, it would end something else
			lines = append(lines, styled{command, plain})
		}
	}
	return lines
}

// inHeadline reports whether the headline tells of a deadlock.
func (m Model) inHeadline(cycle monitor.Cycle) bool {
	in := m.table.headline.Cycle
	return in != nil && slices.Equal(in.Steps, cycle.Steps)
}
