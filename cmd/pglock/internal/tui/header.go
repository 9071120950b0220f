package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// styled is a line of printable text in one style.
type styled struct {
	text  string
	style lipgloss.Style
}

// header returns the lines above the rows.
func (m Model) header() []styled {
	plain := lipgloss.NewStyle()
	lines := []styled{{m.titleLine(), m.styles.title}}
	lines = append(lines, m.alerts()...)
	lines = append(lines, m.headline()...)
	if m.pane != nil || m.lost != nil { // which needs the room, or what was counted may not be so any more
		return lines
	}
	lines = append(lines, styled{m.summary(), plain})
	return lines
}

func (m Model) titleLine() string {
	version, _, _ := strings.Cut(m.snapshot.ServerVersion, " ") // packagers append their own version
	left := fmt.Sprintf(" %s  PostgreSQL %s%s", view.Printable(m.options.Target), view.Printable(version),
		view.StandbyMark(m.snapshot))
	right := fmt.Sprintf("  %s  %s %s ", m.paceText(), clock(m.snapshot.TakenAt), "UTC")
	return justify(left, right, m.width)
}

func (m Model) paceText() string {
	switch {
	case m.paused:
		return "PAUSED"
	case m.lost != nil:
		return "LOST"
	}
	if interval := m.options.Interval.String(); strings.HasSuffix(interval, "m0s") {
		return "every " + strings.TrimSuffix(interval, "0s")
	}
	return "every " + m.options.Interval.String()
}

// alerts returns the lines about outages, deadlocks and full lock tables.
func (m Model) alerts() []styled {
	var lines []styled
	if m.lost != nil {
		lines = append(lines, m.alert(m.lostText())...)
	}
	if used := m.snapshot.Capacity.Percent(); used >= alertPercent {
		text := fmt.Sprintf("LOCK TABLE at least %s full; when it overflows, sessions fail with out of shared memory "+
			"(i shows the largest users)", percent(used))
		lines = append(lines, m.alert(text)...)
	}
	const most = 2
	cycles := slices.DeleteFunc(slices.Clone(m.snapshot.Cycles), m.inHeadline)
	for _, cycle := range cycles[:min(most, len(cycles))] {
		lines = append(lines, m.alert(view.Deadlock(m.snapshot, cycle))...)
	}
	if more := len(cycles) - most; more > 0 {
		lines = append(lines, m.alert(number(more)+" more deadlocks (i shows all)")...)
	}
	return lines
}

// lostText says since when and why the server does not answer.
func (m Model) lostText() string {
	late := fmt.Sprintf("it takes more than %v", snapshotTimeout)
	why := view.Printable(oneLine(view.Cause(m.lost, late)))
	silence := ""
	if m.missed > 0 {
		silence = " for " + view.Age(m.silence())
	}
	return fmt.Sprintf("Unknown since %s UTC: no answer%s, trying again: %s (l: log)", clock(m.snapshot.TakenAt), silence, why)
}

// alertPercent is how full a lock table is, in percent, when there is an alert.
const alertPercent = 75

// alert returns at most two lines.
func (m Model) alert(text string) []styled {
	var lines []styled
	for _, line := range atMost(view.Wrap(view.Printable(text), m.width, "  "), 2) {
		lines = append(lines, styled{line, m.styles.alert})
	}
	return lines
}

func atMost(lines []string, n int) []string { return lines[:min(n, len(lines))] }

func (m Model) summary() string {
	t := m.table.totals
	waiting := plural(t.waiters, "waiter")
	if t.others > 0 {
		waiting += fmt.Sprintf(" (%s for other locks)", number(t.others))
	}
	if t.longest > 0 {
		waiting += ", longest wait " + view.Age(t.longest)
	}
	parts := []string{waiting}
	if t.elsewhere > 0 {
		parts = append(parts, "a: "+number(t.elsewhere)+" more for other locks")
	}
	keys := plural(t.keys, "key")
	if t.inRows > 0 {
		keys += fmt.Sprintf(" (%s in rows)", number(t.inRows))
	}
	parts = append(parts, keys, plural(t.holders, "holder"))
	if c := m.snapshot.Capacity; c.Nominal > 0 {
		parts = append(parts, "lock table ≥"+percent(c.Percent()))
	}
	if gaps := m.gaps(); len(gaps) > 0 {
		parts = append(parts, "no "+strings.Join(gaps.names(), ", ")+" (i)")
	}
	if m.snapshot.RowLocksMissing != "" {
		parts = append(parts, "not all locks in rows (i)")
	}
	text := " " + parts[0]
	for _, part := range parts[1:] { // a number is never cut
		if view.Columns(text+"  "+part) <= m.width {
			text += "  " + part
		}
	}
	return text
}

// percent keeps a decimal below 1 %.
func percent(p float64) string {
	if p > 0 && p < 1 {
		return fmt.Sprintf("%.1f%%", max(p, 0.1))
	}
	return fmt.Sprintf("%.0f%%", p)
}

// gap is something that the server does not show, with the reason.
type gap struct{ what, why string }

type gaps []gap

func (m Model) gaps() gaps {
	s := m.snapshot
	return slices.DeleteFunc(gaps{
		{"names", s.NamesMissing}, {"details", s.DetailsHidden}, {"blockers", s.BlockersMissing},
	}, func(g gap) bool { return g.why == "" })
}

func (g gaps) names() (names []string) {
	for _, each := range g {
		names = append(names, each.what)
	}
	return names
}

func clampTo(n, least, most int) int { return max(least, min(n, most)) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

// justify puts left and right at the ends of a line. If there is no room for both it cuts left.
func justify(left, right string, width int) string {
	return view.Fit(left, max(0, width-view.Columns(right)), false) + right
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
