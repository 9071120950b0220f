package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// board is the answer to a question: the ordered rows of a page.
type board struct {
	// parts are the sources of the rows; snapshot and chain belong to the selected server.
	parts    []part
	snapshot *monitor.Snapshot
	chain    view.Chain
	question question
	rows     []row
	totals   totals
}

// part is the part of a board that is about one server.
type part struct {
	server   int
	label    string
	snapshot *monitor.Snapshot
	chain    view.Chain
}

// totals count all locks that may be shown, whatever the filter.
type totals struct {
	keys, holders, waiters int
	longest                time.Duration
	// filtered is how many keys the filter and waiting leave out, and barred how many may not be
	// shown.
	filtered, barred int
}

// row is a lock on the page of keys, and a session elsewhere.
type row struct {
	id     identity
	group  *group        // of a row for several keys
	lock   *monitor.Lock // of a session: the lock that it waits for, or that others wait for; may be nil
	person *person
	// longest is the longest wait for the lock or, in the tree, below the row; negative without
	// waiters.
	longest time.Duration
	// behind is how many sessions are blocked by this one, each counted once ([monitor.Snapshot.Behind]).
	behind int
	// certain says that it is part of a certain deadlock or, in the tree, above such a row.
	certain bool
	// guide is the line that connects a row of the tree with the rows above.
	guide string
}

// identity identifies the same row in the next snapshot.
type identity struct {
	server int
	place  place
	group  group
	who    monitor.SessionID
	// repeated marks a session that is also above: the end of a cycle.
	repeated bool
}

// arrange answers a question about the snapshot of one server.
func arrange(s *monitor.Snapshot, q question) board { return arrangeAll([]part{{snapshot: s}}, q) }

// arrangeAll answers a question about the snapshots of all servers.
func arrangeAll(parts []part, q question) board {
	b := board{parts: slices.Clone(parts), question: q}
	var trees []*branch
	for i := range b.parts {
		p := &b.parts[i]
		p.chain = view.NewChain(p.snapshot)
		choose := newChooser(q.about(p.label))
		chosen, totals := survey(p.snapshot, choose)
		b.totals = b.totals.plus(totals)
		switch q.page {
		case pageKeys:
			b.rows = append(b.rows, p.own(folded(q, keyRows(p.snapshot, chosen)))...)
		case pageTree:
			trees = append(trees, p.plant(chosenTrees(p.snapshot, choose))...)
		default:
			b.rows = append(b.rows, p.own(sessionRows(p.snapshot, choose))...)
		}
	}
	if q.page == pageTree {
		b.rows = flatten(sorted(q, trees, func(tree *branch) row { return tree.row("") }))
	} else {
		b.rows = sorted(q, b.rows, func(r row) row { return r })
	}
	b.snapshot, b.chain = b.parts[0].snapshot, b.parts[0].chain
	return b
}

// own marks rows as belonging to this server.
func (p *part) own(rows []row) []row {
	for i := range rows {
		r := &rows[i]
		r.id.server, r.certain = p.server, len(p.snapshot.Cycles) > 0 && certainly(p.snapshot, r.lock, r.person)
	}
	return rows
}

// plant marks trees as belonging to this server.
func (p *part) plant(trees []*branch) []*branch {
	for _, tree := range trees {
		p.plant(tree.below)
		tree.server = p.server
		tree.certain = len(p.snapshot.Cycles) > 0 && certainly(p.snapshot, nil, tree.person) ||
			slices.ContainsFunc(tree.below, func(b *branch) bool { return b.certain })
	}
	return trees
}

func (t totals) plus(other totals) totals {
	return totals{t.keys + other.keys, t.holders + other.holders, t.waiters + other.waiters, max(t.longest, other.longest),
		t.filtered + other.filtered, t.barred + other.barred}
}

// survey finds the locks to be shown, and counts.
func survey(s *monitor.Snapshot, choose chooser) (chosen []*monitor.Lock, t totals) {
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !choose.allowed(lock) {
			t.barred++
			continue
		}
		t.keys, t.holders, t.waiters = t.keys+1, t.holders+len(lock.Holders), t.waiters+len(lock.Waiters)
		t.longest = max(t.longest, longestWait(s, lock))
		if choose.shows(lock) {
			chosen = append(chosen, lock)
		}
	}
	t.filtered = t.keys - len(chosen)
	return chosen, t
}

func keyRows(s *monitor.Snapshot, chosen []*monitor.Lock) []row {
	rows := make([]row, len(chosen))
	for i, lock := range chosen {
		rows[i] = row{id: identity{place: placeOf(lock)}, lock: lock, longest: longestWait(s, lock)}
	}
	return rows
}

// chosenTrees returns whole trees: a row that matches the filter makes no sense without the sessions
// that it waits for.
func chosenTrees(s *monitor.Snapshot, choose chooser) []*branch {
	trees := grow(s, meet(s, choose.allowed))
	if choose.filter != nil {
		trees = slices.DeleteFunc(trees, func(tree *branch) bool { return !tree.matches(choose) })
	}
	return trees
}

func (b *branch) matches(choose chooser) bool {
	if choose.matchesSession(b.Session) || b.shownLock() != nil && choose.matchesKey(b.shownLock()) {
		return true
	}
	return slices.ContainsFunc(b.below, func(child *branch) bool { return child.matches(choose) })
}

func sessionRows(s *monitor.Snapshot, choose chooser) (rows []row) {
	met, behind := meet(s, choose.allowed), s.Behind()
	for _, p := range met.all {
		if choose.showsPerson(p) {
			r := row{id: identity{who: p.Session.ID()}, person: p, lock: p.lock, longest: -1, behind: behind[p.ID()]}
			if p.waiter != nil {
				r.longest = waited(s, p.waiter)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func (c chooser) showsPerson(p *person) bool {
	switch {
	case c.waiting && p.waiter == nil && len(p.inWayOf) == 0:
		return false
	case c.filter == nil || c.matchesSession(p.Session):
		return true
	case p.lock != nil && c.matchesKey(p.lock), p.other != nil && c.filter.MatchString(p.other.String()):
		return true
	}
	return slices.ContainsFunc(p.held, c.matchesKey)
}
