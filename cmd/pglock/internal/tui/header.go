package tui

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/display"
)

// styled is a line of printable text in one style.
type styled struct {
	text  string
	style lipgloss.Style
}

// header returns the lines above the rows.
func (m Model) header() []styled {
	right := fmt.Sprintf("  %s  %s UTC ", m.paceText(), clock(m.snapshot.TakenAt))
	lines := []styled{{justify(" "+m.text.Title(), right, m.width), m.styles.title}}
	if m.lost != nil { // what was to be done may not be any more
		return append(lines, m.alert(m.lostLines())...)
	}
	if used := m.snapshot.Capacity.Percent(); used >= view.AlertPercent {
		lines = append(lines, m.alert(view.Wrap(fmt.Sprintf("LOCK TABLE at least %.0f%% full; when it overflows, sessions fail with out of shared "+
			"memory (i shows the largest users)", used), m.width, "  "))...)
	}
	lines = append(lines, m.alert(m.text.DeadlockLines(m.width))...)
	lines = append(lines, m.headline()...)
	if m.pane == nil {
		lines = append(lines, styled{" " + m.text.Total(), lipgloss.NewStyle()})
	}
	return lines
}

func (m Model) paceText() string {
	switch {
	case m.paused:
		return "PAUSED"
	case m.lost != nil:
		return "LOST"
	}
	return "every " + strings.Replace(m.options.Interval.String(), "m0s", "m", 1)
}

// lostLines say since when and why the server does not answer.
func (m Model) lostLines() []string {
	why, silence := oneLine(view.Cause(m.lost, fmt.Sprintf("it takes more than %v", snapshotTimeout))), ""
	if m.missed > 0 {
		silence = " for " + display.Age(m.silence())
	}
	return view.Wrap(view.Printable(fmt.Sprintf("Unknown since %s UTC: no answer%s, trying again: %s", clock(m.snapshot.TakenAt), silence, why)),
		m.width, "  ")
}

// alert returns at most two lines.
func (m Model) alert(text []string) (lines []styled) {
	const most = 2
	for _, line := range text[:min(most, len(text))] {
		lines = append(lines, styled{line, m.styles.alert})
	}
	return lines
}

// The smallest heights of a terminal in which the headline has two lines, the statement of the culprit, four lines, and the command.
const (
	sentenceHeight  = 16
	statementHeight = 20
	wholeHeight     = 24
	commandHeight   = 30
)

// headline returns the lines about the best action.
func (m Model) headline() (lines []styled) {
	a, plain, most := m.text.Action, lipgloss.NewStyle(), 2
	switch {
	case m.height < sentenceHeight:
		most = 1
	case m.height >= wholeHeight:
		most = 4
	}
	text := view.Wrap(view.Printable(a.String()), m.width-1, "  ")
	if len(text) > most {
		text = append(text[:most-1], view.Cut(text[most-1]+" "+strings.TrimSpace(text[most]), m.width-1))
	}
	style := m.styles.root
	if a.Waiting == 0 {
		style = plain
	}
	for _, line := range text {
		lines = append(lines, styled{" " + line, style})
	}
	if statement := view.StatementLine(a); statement != "" && m.height >= statementHeight {
		lines = append(lines, styled{view.Cut("   "+statement, m.width), plain})
	}
	if command := "   " + view.EndCommand(a, m.options.Server.Flags); m.options.End != nil && m.height >= commandHeight &&
		a.Signal != "" && view.Columns(command) <= m.width { // cut, it would end something else
		lines = append(lines, styled{command, plain})
	}
	return lines
}

// justify puts left and right at the ends of a line. If there is no room for both it cuts left.
func justify(left, right string, width int) string {
	return view.Fit(left, max(0, width-view.Columns(right)), false) + right
}
