package tui

import (
	"cmp"
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
	s, ok := m.worstSource()
	if !ok {
		return nil
	}
	h, plain := s.headline, lipgloss.NewStyle()
	where := ""
	if m.multiServer() {
		where = m.shortLabel(s.server) + ": "
	}
	text := view.Wrap(where+view.Printable(h.String()), m.width-1, "  ")
	if most := 2; m.height < sentenceHeight {
		text = []string{view.Cut(where+view.Printable(h.String()), m.width-1)}
	} else if len(text) > most {
		text = append(text[:most-1], view.Cut(text[most-1]+" "+text[most], m.width-1))
	}
	style := m.styles.root
	switch {
	case m.servers[s.server].lost != nil:
		style = m.styles.dim
	case h.Quiet():
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
	if m.servers[s.server].End != nil && m.height >= commandHeight {
		command := "   " + view.EndCommand(h, m.servers[s.server].Flags)
		if strings.TrimSpace(command) != "" && view.Columns(command) <= m.width { // cut, it would end something else
			lines = append(lines, styled{command, plain})
		}
	}
	return lines
}

// worstSource returns the source with the worst headline: a deadlock, or else most sessions behind the root, or else most
// waits. Those without a snapshot have none.
func (m Model) worstSource() (worst source, ok bool) {
	for _, s := range m.table.sources {
		if m.servers[s.server].seen && (!ok || compareHeadlines(s.headline, worst.headline) < 0) {
			worst, ok = s, true
		}
	}
	return worst, ok
}

func compareHeadlines(a, b monitor.Headline) int {
	deadlock := func(h monitor.Headline) int {
		if h.Cycle != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(deadlock(b), deadlock(a)), cmp.Compare(b.Frees, a.Frees), cmp.Compare(b.Waiting, a.Waiting))
}

// inHeadline reports whether the headline tells of a deadlock.
func (m Model) inHeadline(cycle monitor.Cycle) bool {
	s, ok := m.worstSource()
	return ok && s.server == m.server.index && s.headline.Cycle != nil && slices.Equal(s.headline.Cycle.Steps, cycle.Steps)
}
