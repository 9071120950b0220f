package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// tableData is what a query found: the ordered rows of a page.
type tableData struct {
	snapshot *monitor.Snapshot
	tree     *monitor.Tree
	headline monitor.Action
	query    tableQuery
	rows     []row
	totals   totals
}

// row is a lock on the keys page and a session or process in the tree.
type row struct {
	id rowID
	// lock is, in a session's row, the one that it waits for or that others wait for; it may be nil.
	lock    *monitor.Lock
	session *sessionInfo
	fold    []*monitor.Node // only in a row for several waiters, of which session is the first
	// within is the fold that the row belongs to, which the user has unfolded.
	within *rowID
	// hidden is how many rows below this one are not shown.
	hidden int
	// longest is the longest wait for the lock, that of a session or, in the tree, of a session and those behind it. It
	// is negative if there is none.
	longest time.Duration
	// behind is how many sessions are blocked by this one ([monitor.Node.Behind]).
	behind int
	// certain reports that the row is part of a certain deadlock.
	certain bool
	// guide connects a row of the tree with the rows above it.
	guide string
}

// rowID identifies a row across snapshots.
type rowID struct {
	lock    lockID
	session monitor.SessionID
	fold    foldID
	// repeated reports that the session also stands above, which closes a cycle.
	repeated bool
}

// arrange runs a query on a snapshot.
func arrange(s *monitor.Snapshot, q tableQuery) tableData {
	t := tableData{snapshot: s, tree: q.only.Tree(s), headline: q.only.Action(s), query: q}
	match := newMatcher(q, s)
	var chosen []*monitor.Lock
	chosen, t.totals = chooseLocks(match)
	if q.page == pageKeys {
		t.rows = t.keyRows(chosen)
		sortKeys(t.rows)
		return t
	}
	trees := t.chosenTrees(match)
	sortTrees(trees)
	t.rows = flatten(q, trees)
	return t
}

func (t *tableData) keyRows(chosen []*monitor.Lock) []row {
	rows := make([]row, len(chosen))
	for i, lock := range chosen {
		rows[i] = row{id: rowID{lock: lockIDOf(lock)}, lock: lock, longest: longestWait(t.snapshot, lock),
			certain: slices.ContainsFunc(t.snapshot.Cycles, func(c monitor.Cycle) bool { return c.Certain && inCycle(c, lock) })}
	}
	return rows
}

// inCycle reports whether a lock is part of a deadlock.
func inCycle(c monitor.Cycle, lock *monitor.Lock) bool {
	return slices.ContainsFunc(c.Steps, func(step monitor.Step) bool {
		return !lock.InRow && lock.Key == step.Key && lock.Database == step.Database
	})
}
