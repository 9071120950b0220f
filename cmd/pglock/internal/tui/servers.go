package tui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// serverColumn is shown only if there are several servers.
var serverColumn = column{title: "SERVER", width: 9, weight: 2, cell: serverCell}

func (m Model) columns(page page) []column {
	if !m.multiServer() {
		return fitColumns(page, m.width)
	}
	return distribute(append([]column{serverColumn}, columnsOf(page, m.width)...), m.width)
}

func serverCell(m Model, r row) string { return m.shortLabel(r.id.server) }

// shortLabel returns a server's label without what it has in common with all others: host, domain, port or database.
func (m Model) shortLabel(i int) string {
	label := m.servers[i].Label
	all := func(has func(label string) bool) bool {
		return !slices.ContainsFunc(m.servers, func(s server) bool { return !has(s.Label) })
	}
	first, last := 0, len(label)
	for at := len(label) - 1; at > 0; at-- {
		rest := label[at:]
		domain := rest[0] == '.' && len(rest) > 1 && unicode.IsLetter(rune(rest[1])) // not a part of an IP address
		if (domain || rest[0] == ':' || rest[0] == '/') && all(func(other string) bool {
			return len(other) > len(rest) && strings.HasSuffix(other, rest)
		}) {
			last = at
		}
	}
	for at := 1; at < last; at++ {
		if begin := label[:at+1]; label[at] == ':' && all(func(other string) bool { return strings.HasPrefix(other, begin) }) {
			first = at
		}
	}
	return view.Printable(label[first:last])
}

// byWorst is the default order of several servers.
var byWorst = order{name: "worst", titles: []string{"SERVER"},
	weight: func(r row) int64 { return deadlocksFirst(r, int64(r.longest)) }, then: waitersOf}

// waitersOf returns how many sessions wait for a key, or are blocked by a session.
func waitersOf(r row) int64 {
	if r.session == nil {
		return int64(r.waiterCount())
	}
	return int64(r.behind)
}

// inCertainDeadlock reports whether a lock is part of a certain deadlock.
func inCertainDeadlock(s *monitor.Snapshot, lock *monitor.Lock) bool {
	return slices.ContainsFunc(s.Cycles, func(c monitor.Cycle) bool { return c.Certain && inCycle(c, lock) })
}

func inCycle(c monitor.Cycle, lock *monitor.Lock) bool {
	return slices.ContainsFunc(c.Steps, func(step monitor.Step) bool {
		return lock.Key == step.Key && lock.Database == step.Database
	})
}

func (m Model) multiTitleLine() string {
	standbys, lost := 0, 0
	for _, s := range m.servers {
		if s.snapshot.Server.InRecovery {
			standbys++
		}
		if s.lost != nil {
			lost++
		}
	}
	left := " " + plural(len(m.servers), "server")
	if standbys > 0 {
		left += "  " + plural(standbys, "standby")
	}
	if lost > 0 {
		left += fmt.Sprintf("  %d LOST", lost)
	}
	now := m.now()
	return justify(left, fmt.Sprintf("  %s  %s %s ", m.paceText(), clock(now), now.Format("MST")), m.width)
}

// multiAlerts returns the alerts of all servers, as many as fit.
func (m Model) multiAlerts() []styled {
	var lines []styled
	for _, s := range m.servers { // one line for each that does not answer
		if s.lost != nil {
			lines = append(lines, styled{view.Cut(m.withServer(s.index).lostText(), m.width), m.styles.alert})
		}
	}
	for _, s := range m.servers {
		lines = append(lines, m.withServer(s.index).serverAlerts()...)
	}
	room := max(2, m.height/3)
	if len(lines) <= room {
		return lines
	}
	rest := styled{fmt.Sprintf("%d more lines about other servers (i shows all)", len(lines)-room+1), m.styles.alert}
	return append(lines[:room-1], rest)
}

// lostText says since when and why a server does not answer.
func (m Model) lostText() string {
	late := fmt.Sprintf("it takes more than %v", snapshotTimeout)
	since, why := m.snapshot.TakenAt, view.Printable(oneLine(view.Cause(m.lost, late)))
	when := clock(since) + " " + since.Format("MST")
	switch {
	case m.multiServer() && m.seen:
		return fmt.Sprintf("LOST %s since %s: %s", m.shortLabel(m.server.index), when, why)
	case m.multiServer():
		return fmt.Sprintf("LOST %s since the beginning, %s: %s", m.shortLabel(m.server.index), when, why)
	}
	return fmt.Sprintf("LOST no answer since %s, trying again: %s (l: log)", when, why)
}

// fullestLockTable says which server's lock table is the fullest.
func (m Model) fullestLockTable() string {
	var fullest *server
	for i := range m.servers {
		s := &m.servers[i]
		if s.snapshot.Capacity.Nominal > 0 &&
			(fullest == nil || s.snapshot.Capacity.Percent() > fullest.snapshot.Capacity.Percent()) {
			fullest = s
		}
	}
	if fullest == nil {
		return ""
	}
	return "lock table ≥" + percent(fullest.snapshot.Capacity.Percent()) + " (" + m.shortLabel(fullest.index) + ")"
}

// combinedWaiters returns the number of waiters on all servers, without those that do not answer.
func (m Model) combinedWaiters() series {
	if !m.multiServer() {
		return m.trends.waiters
	}
	all := series{}
	for _, s := range m.servers {
		if s.lost == nil {
			all = all.merge(s.trends.waiters, func(a, b int64) int64 { return a + b })
		}
	}
	return all
}

// merge combines two series, aligned at their ends. Where only one has a value it uses that.
func (s series) merge(other series, join func(a, b int64) int64) series {
	for i, value := range other.values {
		switch {
		case i < trendLength-other.length || value == noValue:
		case i < trendLength-s.length || s.values[i] == noValue:
			s.values[i] = value
		default:
			s.values[i] = join(s.values[i], value)
		}
	}
	s.length = max(s.length, other.length)
	return s
}
