// Package view writes snapshots of advisory locks as text (a table that fits a terminal) and as JSON. Package
// monitor decides what is in a snapshot, and what is hidden.
package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Filter says which locks of a snapshot are shown. The zero value shows all.
type Filter struct {
	// Keys are the keys to show, in any database; none means all.
	Keys []pglock.Key
	// Databases and Applications limit the locks: a lock must be in one of the databases, and one of its holders or waiters must
	// have one of the application_names. An empty list means all.
	Databases, Applications []string
}

// Apply returns a copy of the snapshot with only the locks to show, their deadlocks, the waits for other locks to show, and
// those that are connected with any of these. Sessions that wait elsewhere are only counted, so they may be in another
// database: they stay counted unless keys are chosen.
func (f Filter) Apply(s *monitor.Snapshot) *monitor.Snapshot {
	shown := *s
	shown.Locks = slices.DeleteFunc(slices.Clone(s.Locks), func(lock monitor.Lock) bool { return !f.Shows(lock) })
	shown.Cycles = slices.DeleteFunc(slices.Clone(s.Cycles), func(c monitor.Cycle) bool { return !f.showsCycle(s, c) })
	if f.narrows() {
		f.keepConnected(&shown, s.Tree().Of(func(l *monitor.Lock) bool { return f.Shows(*l) }, f.ShowsOther))
		if len(f.Keys) > 0 {
			shown.WaitsElsewhere = 0
		}
	}
	return &shown
}

// keepConnected leaves out waits for other locks, and sessions that block them, that are not in the tree of what is shown.
func (f Filter) keepConnected(shown *monitor.Snapshot, tree *monitor.Tree) {
	shown.OtherWaits = slices.DeleteFunc(slices.Clone(shown.OtherWaits), func(w monitor.OtherWait) bool { return tree.Node(w.ID()) == nil })
	shown.OtherSessions = slices.DeleteFunc(slices.Clone(shown.OtherSessions), func(s monitor.Session) bool { return tree.Node(s.ID()) == nil })
}

// narrows reports whether the filter leaves out locks that have waiters.
func (f Filter) narrows() bool {
	return len(f.Keys)+len(f.Databases)+len(f.Applications) > 0
}

// named returns a copy of the snapshot in which unnamed locks have the names by which the filter's keys were chosen.
func (f Filter) named(all *monitor.Snapshot) *monitor.Snapshot {
	s := *all
	s.Locks = slices.Clone(all.Locks)
	for i := range s.Locks {
		lock := &s.Locks[i]
		for _, key := range f.Keys {
			if key.Name() != "" && !lock.InRow && key.ID() == lock.ID() && len(lock.Names) == 0 {
				lock.Key, lock.Names = key.String(), []string{key.Name()}
			}
		}
	}
	return &s
}

// Shows reports whether the filter shows a lock.
func (f Filter) Shows(lock monitor.Lock) bool {
	if !f.inDatabases(lock.Database) || !f.showsSessions(lock) {
		return false
	}
	return len(f.Keys) == 0 || slices.ContainsFunc(f.Keys, func(key pglock.Key) bool { return key.ID() == lock.ID() })
}

// ShowsOther reports whether the filter shows a wait for a lock that is not an advisory lock, whatever else it is connected
// with.
func (f Filter) ShowsOther(wait *monitor.OtherWait) bool {
	return len(f.Keys) == 0 && f.inDatabases(wait.Database) && f.showsSession(wait.Application)
}

// showsSessions reports whether the filter shows a holder or waiter of a lock.
func (f Filter) showsSessions(lock monitor.Lock) bool {
	if len(f.Applications) == 0 {
		return true
	}
	return slices.ContainsFunc(lock.Holders, func(h monitor.Holder) bool { return f.showsSession(h.Application) }) ||
		slices.ContainsFunc(lock.Waiters, func(w monitor.Waiter) bool { return f.showsSession(w.Application) })
}

func (f Filter) showsSession(application string) bool {
	name, _ := appname.Split(application)
	return len(f.Applications) == 0 || slices.Contains(f.Applications, application) || slices.Contains(f.Applications, name)
}

// showsCycle reports whether a deadlock involves a shown lock.
func (f Filter) showsCycle(s *monitor.Snapshot, cycle monitor.Cycle) bool {
	if !f.narrows() {
		return true
	}
	return slices.ContainsFunc(s.Locks, func(lock monitor.Lock) bool {
		return f.Shows(lock) && slices.ContainsFunc(cycle.Steps, func(step monitor.Step) bool {
			return step.Key == lock.Key && step.Database == lock.Database
		})
	})
}
