package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// tableData is what a query found: the ordered rows of a page.
type tableData struct {
	// sources has an entry for each server. snapshot and chain are those of the selected server.
	sources  []source
	snapshot *monitor.Snapshot
	chain    view.Chain
	query    tableQuery
	rows     []row
	totals   totals
}

// source is one server's part of a table.
type source struct {
	server   int
	label    string
	snapshot *monitor.Snapshot
	chain    view.Chain
}

// totals counts all locks that may be shown, whatever the filter.
type totals struct {
	keys, holders, waiters int
	longest                time.Duration
	// filtered is how many keys are left out by the filter or because they have no waiters; excluded
	// is how many may never be shown.
	filtered, excluded int
}

// row is a lock on the keys page and a session on the other pages.
type row struct {
	id    rowID
	group *group        // only in a row for several keys
	lock  *monitor.Lock // in a session's row, the lock that it waits for or that others wait for; may be nil
	node  *sessionNode
	// longest is the longest wait for the lock or, in the tree, of the row and those below it. It is
	// negative if there are no waiters.
	longest time.Duration
	// behind is how many sessions are blocked by this one ([monitor.Snapshot.Behind]).
	behind int
	// certain reports that the row or, in the tree, one below it is part of a certain deadlock.
	certain bool
	// guide connects a row of the tree with the rows above it.
	guide string
}

// rowID identifies a row across snapshots.
type rowID struct {
	server  int
	lock    lockID
	group   group
	session monitor.SessionID
	// repeated reports that the session also stands above, which closes a cycle.
	repeated bool
}

// arrange runs a query on the snapshot of one server.
func arrange(s *monitor.Snapshot, q tableQuery) tableData {
	return arrangeAll([]source{{snapshot: s}}, q)
}

// arrangeAll runs a query on the snapshots of all servers.
func arrangeAll(parts []source, q tableQuery) tableData {
	b := tableData{sources: slices.Clone(parts), query: q}
	var trees []*treeNode
	for i := range b.sources {
		p := &b.sources[i]
		p.chain = view.NewChain(p.snapshot)
		match := newMatcher(q.forServer(p.label))
		chosen, totals := chooseLocks(p.snapshot, match)
		b.totals = b.totals.plus(totals)
		switch q.page {
		case pageKeys:
			b.rows = append(b.rows, p.markRows(folded(q, keyRows(p.snapshot, chosen)))...)
		case pageTree:
			trees = append(trees, p.markTrees(chosenTrees(p.snapshot, match))...)
		default:
			b.rows = append(b.rows, p.markRows(sessionRows(p.snapshot, match))...)
		}
	}
	if q.page == pageTree {
		b.rows = flatten(sorted(q, trees, func(tree *treeNode) row { return tree.row("") }))
	} else {
		b.rows = sorted(q, b.rows, func(r row) row { return r })
	}
	b.snapshot, b.chain = b.sources[0].snapshot, b.sources[0].chain
	return b
}

// markRows notes the server and the deadlocks of rows.
func (p *source) markRows(rows []row) []row {
	for i := range rows {
		r := &rows[i]
		r.id.server, r.certain = p.server, len(p.snapshot.Cycles) > 0 && inCertainDeadlock(p.snapshot, r.lock, r.node)
	}
	return rows
}

// markTrees notes the server and the deadlocks of trees.
func (p *source) markTrees(trees []*treeNode) []*treeNode {
	for _, tree := range trees {
		p.markTrees(tree.below)
		tree.server = p.server
		tree.certain = len(p.snapshot.Cycles) > 0 && inCertainDeadlock(p.snapshot, nil, tree.sessionNode) ||
			slices.ContainsFunc(tree.below, func(b *treeNode) bool { return b.certain })
	}
	return trees
}

func (t totals) plus(other totals) totals {
	return totals{t.keys + other.keys, t.holders + other.holders, t.waiters + other.waiters, max(t.longest, other.longest),
		t.filtered + other.filtered, t.excluded + other.excluded}
}

// chooseLocks returns the locks that match, and counts all.
func chooseLocks(s *monitor.Snapshot, match matcher) (chosen []*monitor.Lock, t totals) {
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !match.allowed(lock) {
			t.excluded++
			continue
		}
		t.keys, t.holders, t.waiters = t.keys+1, t.holders+len(lock.Holders), t.waiters+len(lock.Waiters)
		t.longest = max(t.longest, longestWait(s, lock))
		if match.shows(lock) {
			chosen = append(chosen, lock)
		}
	}
	t.filtered = t.keys - len(chosen)
	return chosen, t
}

func keyRows(s *monitor.Snapshot, chosen []*monitor.Lock) []row {
	rows := make([]row, len(chosen))
	for i, lock := range chosen {
		rows[i] = row{id: rowID{lock: lockIDOf(lock)}, lock: lock, longest: longestWait(s, lock)}
	}
	return rows
}

// chosenTrees returns whole trees, since a matching session makes no sense without those that block it.
func chosenTrees(s *monitor.Snapshot, match matcher) []*treeNode {
	trees := buildTrees(s, newSessionGraph(s, match.allowed))
	if match.filter != nil {
		trees = slices.DeleteFunc(trees, func(tree *treeNode) bool { return !tree.matches(match) })
	}
	return trees
}

func (b *treeNode) matches(match matcher) bool {
	if match.matchesSession(b.Session) || b.shownLock() != nil && match.matchesKey(b.shownLock()) {
		return true
	}
	return slices.ContainsFunc(b.below, func(child *treeNode) bool { return child.matches(match) })
}

func sessionRows(s *monitor.Snapshot, match matcher) (rows []row) {
	graph, behind := newSessionGraph(s, match.allowed), s.Behind()
	for _, p := range graph.all {
		if match.showsNode(p) {
			r := row{id: rowID{session: p.Session.ID()}, node: p, lock: p.lock, longest: -1, behind: behind[p.ID()]}
			if p.waiter != nil {
				r.longest = waited(s, p.waiter)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func (c matcher) showsNode(p *sessionNode) bool {
	switch {
	case c.waiting && p.waiter == nil && len(p.blocks) == 0:
		return false
	case c.filter == nil || c.matchesSession(p.Session):
		return true
	case p.lock != nil && c.matchesKey(p.lock), p.otherLock != nil && c.filter.MatchString(p.otherLock.String()):
		return true
	}
	return slices.ContainsFunc(p.held, c.matchesKey)
}
