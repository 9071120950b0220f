package tui

import (
	"fmt"
	"maps"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// foldID identifies waiters that are shown as one row: those that wait for the same lock in the same way, for the same
// session.
type foldID struct {
	blocker monitor.SessionID
	label   string
	mode    string
	kind    string
}

func foldOf(n *monitor.Node) foldID {
	id := foldID{label: n.Wait.Label(), mode: n.Wait.Mode, kind: n.Kind}
	if n.Blocker != nil {
		id.blocker = n.Blocker.ID()
	}
	return id
}

// toggle folds or unfolds a row.
func (q tableQuery) toggle(id rowID) tableQuery {
	toggled := maps.Clone(q.toggled) // another command may read the old one
	if toggled == nil {
		toggled = map[rowID]bool{}
	}
	if toggled[id] {
		delete(toggled, id)
	} else {
		toggled[id] = true
	}
	q.toggled = toggled
	return q
}

// refold switches between unfolding all rows and folding them as they were at first.
func (q tableQuery) refold() tableQuery {
	q.flat, q.toggled = !q.flat && len(q.toggled) == 0, nil
	return q
}

// isFolded reports whether the row stands for others, which unfolding it shows.
func (r row) isFolded() bool { return len(r.fold) > 0 || r.hidden > 0 }

// unfoldRow shows the rows that the selected one stands for.
func (m Model) unfoldRow() (Model, tea.Cmd) {
	r, ok := m.selectedRow()
	if !ok || !r.isFolded() {
		return m, nil
	}
	m.query = m.query.toggle(r.id)
	return m.rearrange()
}

// foldRow folds what the selected row was unfolded from, or else what is below it.
func (m Model) foldRow() (Model, tea.Cmd) {
	r, ok := m.selectedRow()
	page := m.table.query.page
	switch {
	case !ok || r.isFolded():
		return m, nil
	case r.within != nil:
		m.query = m.query.toggle(*r.within)
		m.cursors[page].chosen = r.within
	case page == pageTree && len(r.session.node.Children) > 0:
		m.query = m.query.toggle(r.id)
	default:
		return m, nil
	}
	return m.rearrange()
}

// toggleRow folds or unfolds the selected row.
func (m Model) toggleRow() (Model, tea.Cmd) {
	if r, ok := m.selectedRow(); ok && r.isFolded() {
		return m.unfoldRow()
	}
	return m.foldRow()
}

// foldText describes the waiters of a row: how long they have waited, and which is the first and which the last.
func foldText(s *monitor.Snapshot, nodes []*monitor.Node) string {
	branch := fold.Branch{Nodes: nodes}
	names := fmt.Sprintf("%s … %s", sessionLabel(branch.First().Session), sessionLabel(branch.Last().Session))
	shortest, longest, ok := branch.Waited(s.TakenAt)
	if !ok {
		return names
	}
	return waitRange(shortest, longest) + ": " + names
}

func waitRange(shortest, longest time.Duration) string {
	from, to := view.Age(shortest), view.Age(longest)
	if from == to {
		return from
	}
	return from + " to " + to
}
