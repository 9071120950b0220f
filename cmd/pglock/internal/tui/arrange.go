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
}

// totals counts all locks that may be shown, whatever the filter.
type totals struct {
	keys, holders, waiters int
	others, elsewhere      int // sessions that wait for other locks: those of the wait graph, and the rest
	longest                time.Duration
	// filtered is how many keys are left out by the filter or because they have no waiters; excluded
	// is how many may never be shown.
	filtered, excluded int
}

// row is a lock on the keys page and a session on the other pages.
type row struct {
	id      rowID
	group   *group        // only in a row for several keys
	lock    *monitor.Lock // in a session's row, the lock that it waits for or that others wait for; may be nil
	session *sessionInfo  // only in a session's row
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
		p.tree = p.snapshot.Tree()
		match := newMatcher(q.forServer(p.label))
		chosen, totals := chooseLocks(p.snapshot, match)
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
		b.rows = flatten(sorted(q, trees, func(t blockingTree) row { return t.row(t.root, "") }))
	} else {
		b.rows = sorted(q, b.rows, func(r row) row { return r })
	}
	b.snapshot, b.tree = b.sources[0].snapshot, b.sources[0].tree
	return b
}

func (t totals) plus(other totals) totals {
	return totals{t.keys + other.keys, t.holders + other.holders, t.waiters + other.waiters, t.others + other.others,
		t.elsewhere + other.elsewhere, max(t.longest, other.longest), t.filtered + other.filtered, t.excluded + other.excluded}
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
	t.others, t.elsewhere = s.OtherWaiters(), s.WaitsElsewhere
	return chosen, t
}

func (p *source) keyRows(chosen []*monitor.Lock) []row {
	rows := make([]row, len(chosen))
	for i, lock := range chosen {
		rows[i] = row{id: rowID{server: p.server, lock: lockIDOf(lock)}, lock: lock, longest: longestWait(p.snapshot, lock),
			certain: inCertainDeadlock(p.snapshot, lock)}
	}
	return rows
}

func (p *source) sessionRows(match matcher) (rows []row) {
	for _, session := range newSessionList(p.snapshot, p.tree, match.allowed).all {
		if !match.showsSession(session) {
			continue
		}
		r := row{id: rowID{server: p.server, session: session.ID()}, session: session, lock: session.lock(), longest: -1}
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

func (c matcher) showsSession(p *sessionInfo) bool {
	switch {
	case c.waiting && p.node == nil:
		return false
	case c.filter == nil || c.matchesSession(p.Session) || c.matchesOther(p):
		return true
	}
	return p.lock() != nil && c.matchesKey(p.lock()) || slices.ContainsFunc(p.held, c.matchesKey)
}

// matchesOther reports whether the filter matches the lock that is not an advisory lock and that a session waits for.
func (c matcher) matchesOther(p *sessionInfo) bool {
	return p.otherLock() != nil && c.filter.MatchString(p.otherLock().String())
}
