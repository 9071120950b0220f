package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// tableData is what a query found: the ordered rows of a page.
type tableData struct {
	// sources has an entry for each server. snapshot and tree are those of the selected server.
	sources  []source
	snapshot *monitor.Snapshot
	tree     *monitor.Tree
	query    tableQuery
	rows     []row
	totals   totals
}

// source is one server's part of a table.
type source struct {
	server   int
	label    string
	snapshot *monitor.Snapshot
	tree     *monitor.Tree
	headline monitor.Headline
}

// row is a lock on the keys page and a session or process on the other pages.
type row struct {
	id      rowID
	group   *group // only in a row for several keys
	keyInfo        // in a session's row, the lock that it waits for or that others wait for; may be none
	session *sessionInfo
	fold    []*monitor.Node // only in a row for several waiters, of which session is the first
	// within is the group or fold that the row belongs to, which the user has unfolded.
	within *rowID
	// hidden is how many rows below this one are not shown.
	hidden int
	// longest is the longest wait for the lock, that of a session or, in the tree, of a session and those behind it. It
	// is negative if there is none.
	longest time.Duration
	// behind is how many sessions are blocked by this one ([monitor.Snapshot.Behind]).
	behind int
	// certain reports that the row is part of a certain deadlock.
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
	fold    foldID
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
	var trees []blockingTree
	for i := range b.sources {
		p := &b.sources[i]
		p.tree, p.headline = p.snapshot.Tree(), q.only.Headline(p.snapshot)
		match := newMatcher(q.forServer(p.label), p.snapshot)
		chosen, totals := chooseLocks(match)
		b.totals = b.totals.plus(totals)
		switch q.page {
		case pageKeys:
			b.rows = append(b.rows, folded(q, p.keyRows(chosen))...)
		case pageTree:
			trees = append(trees, p.chosenTrees(match)...)
		default:
			b.rows = append(b.rows, p.sessionRows(match)...)
		}
	}
	if q.page == pageTree {
		b.rows = flatten(q, sorted(q, trees, func(t blockingTree) row { return t.row(t.root, "") }))
	} else {
		b.rows = sorted(q, b.rows, func(r row) row { return r })
	}
	b.snapshot, b.tree = b.sources[0].snapshot, b.sources[0].tree
	return b
}

func (p *source) keyRows(chosen []keyInfo) []row {
	rows := make([]row, len(chosen))
	for i, k := range chosen {
		rows[i] = row{id: rowID{server: p.server, lock: k.keyID()}, keyInfo: k, longest: k.longestWait(p.snapshot),
			certain: k.lock != nil && inCertainDeadlock(p.snapshot, k.lock)}
	}
	return rows
}

func (p *source) sessionRows(match matcher) (rows []row) {
	for _, session := range newSessionList(p.snapshot, p.tree, match).all {
		if !match.showsSession(session) {
			continue
		}
		r := row{id: rowID{server: p.server, session: session.ID()}, session: session, keyInfo: session.waitsFor(), longest: -1}
		if n := session.node; n != nil {
			r.behind, r.certain = n.Behind, n.Certain
		}
		if wait := session.wait(); wait != nil {
			r.longest = waited(p.snapshot, wait.Waiter)
		}
		rows = append(rows, r)
	}
	return rows
}
