package tui

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// board is the answer to a question: the rows of a page, in order.
type board struct {
	// snapshot is what the rows are about.
	snapshot *monitor.Snapshot
	question question
	rows     []row
	totals   totals
	chain    view.Chain
}

// totals are counted over the locks that may be shown, whatever the filter says.
type totals struct {
	keys, holders, waiters int
	longest                time.Duration
	// filtered is how many keys filter and waiting leave out, and barred how many may not be shown.
	filtered, barred int
}

// row is a lock on the page of keys, and a session elsewhere.
type row struct {
	id     identity
	lock   *monitor.Lock // of a session what it waits for, or what others wait for; may be nil
	person *person
	// longest is the longest wait for the lock or, in the tree, below; negative without waiters.
	longest time.Duration
	// behind is how many sessions cannot go on before this one does, each counted once ([monitor.Snapshot.Behind]).
	behind int
	// guide is the line that connects a row of the tree with those above.
	guide string
}

// identity tells which row of the next snapshot is the same.
type identity struct {
	place place
	who   monitor.SessionID
	// repeated marks a session that is also above: the end of a cycle.
	repeated bool
}

// arrange answers a question about a snapshot.
func arrange(s *monitor.Snapshot, q question) board {
	choose := newChooser(q)
	chosen, totals := survey(s, choose)
	b := board{snapshot: s, question: q, totals: totals, chain: view.NewChain(s)}
	switch q.page {
	case pageKeys:
		b.rows = sorted(q, keyRows(s, chosen), func(r row) row { return r })
	case pageTree:
		b.rows = treeRows(s, choose)
	default:
		b.rows = sorted(q, sessionRows(s, choose), func(r row) row { return r })
	}
	return b
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

// treeRows shows whole trees: a row that matches the filter makes no sense without those that it waits for.
func treeRows(s *monitor.Snapshot, choose chooser) []row {
	trees := grow(s, meet(s, choose.allowed))
	if choose.filter != nil {
		trees = slices.DeleteFunc(trees, func(tree *branch) bool { return !tree.matches(choose) })
	}
	return flatten(sorted(choose.question, trees, func(tree *branch) row { return tree.row("") }))
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
