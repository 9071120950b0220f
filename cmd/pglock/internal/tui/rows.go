package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// row is a key, or a branch of the tree.
type row struct {
	lock   *monitor.Lock // nil in the tree
	branch fold.Branch
	guide  string
}

// rowID identifies a row across snapshots.
type rowID struct {
	database uint32
	key      pglock.KeyID
	inRow    bool
	session  monitor.SessionID
	folded   bool
}

func (r row) id() rowID {
	if r.lock != nil {
		return rowID{database: r.lock.DatabaseOID, key: r.lock.ID(), inRow: r.lock.InRow}
	}
	return rowID{session: r.branch.First().ID(), folded: r.branch.Folded()}
}

// arranged returns the model with the rows of its page.
func (m Model) arranged() Model {
	if m.page == pageKeys {
		m.rows = m.keyRows()
	} else {
		m.rows = m.treeRows()
	}
	best := rowID{}
	if whom := m.text.Action.Whom; len(whom) > 0 {
		best.session = whom[0].ID()
	}
	m.cursors[m.page] = m.cursors[m.page].find(m.rows, best)
	return m
}

func (m Model) keyRows() (rows []row) {
	locks, _ := m.text.Keys()
	for _, lock := range locks {
		if r := (row{lock: lock}); m.finds(r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// treeRows returns whole trees, since a session that the filter finds makes no sense without those that block it.
func (m Model) treeRows() (rows []row) {
	branches, guides := m.text.Rows(m.flat || m.filter != "")
	var tree []row
	found := false
	for i, branch := range branches {
		if guides[i] == "" { // the root of the next tree
			if found {
				rows = append(rows, tree...)
			}
			tree, found = nil, false
		}
		r := row{branch: branch, guide: guides[i]}
		tree, found = append(tree, r), found || m.finds(r)
	}
	if found {
		rows = append(rows, tree...)
	}
	return rows
}

// finds reports whether the filter is in the text of a row.
func (m Model) finds(r row) bool {
	return m.filter == "" || strings.Contains(strings.ToLower(strings.Join(m.cells(r), " ")), strings.ToLower(m.filter))
}

// cells returns the cells of a row in the order of package view, and of a session how many are behind it, and its user.
func (m Model) cells(r row) []string {
	if r.lock != nil {
		return m.text.KeyCells(r.lock)
	}
	cells, n := m.text.TreeCells(r.branch, r.guide), r.branch.First()
	if r.branch.Folded() {
		return append(cells, "", "")
	}
	behind := ""
	if n.Behind > 0 {
		behind = number(n.Behind)
	}
	return append(cells, behind, view.Field(*n.Session, "user", n.User))
}

// waited returns the wait by which a row is coloured, or a negative duration if there is none.
func (m Model) waited(r row) time.Duration {
	switch {
	case r.lock != nil && len(r.lock.Waiters) > 0:
		return m.text.Longest(r.lock)
	case r.lock == nil && r.branch.First().Wait != nil:
		_, longest, _ := r.branch.Waited(m.snapshot.TakenAt)
		return longest
	}
	return -1
}

// isRoot reports whether others wait for the session of a row, not only as they do in normal work, and it waits for none.
func (r row) isRoot() bool {
	return r.lock == nil && r.branch.First().Wait == nil &&
		slices.ContainsFunc(r.branch.First().Children, func(n *monitor.Node) bool { return n.Wait == nil || !n.Wait.Expected })
}

// deadlocked reports whether the session of a row is part of a cycle.
func (r row) deadlocked() bool { return r.lock == nil && r.branch.First().Deadlock }

// selectedRow returns the selected row, or false if there is none.
func (m Model) selectedRow() (row, bool) {
	at := m.cursors[m.page].at
	if at >= len(m.rows) {
		return row{}, false
	}
	return m.rows[at], true
}

// selectedSession returns the session of the selected row, or the only holder of its key, or nil.
func (m Model) selectedSession() *monitor.Session {
	switch r, ok := m.selectedRow(); {
	case ok && r.lock != nil && len(r.lock.Holders) == 1:
		return &r.lock.Holders[0].Session
	case ok && r.lock == nil && !r.branch.Folded():
		return r.branch.First().Session
	}
	return nil
}
