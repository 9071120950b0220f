// Package view writes snapshots of locks as text (a page that fits a terminal) and as JSON. Package monitor decides what is in a
// snapshot, and what is hidden.
package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Filter says what of a snapshot is shown. The zero value shows all.
type Filter struct {
	// Keys are the keys to show; none means all.
	Keys []pglock.Key
	// Here limits the locks to those in the connected database.
	Here bool
}

// narrows reports whether the filter leaves out locks that have waiters.
func (f Filter) narrows() bool { return len(f.Keys) > 0 || f.Here }

// Apply returns the snapshot with only the locks to show, their deadlocks, the waits for other locks to show, and those that are
// connected with any of these. Sessions that wait elsewhere are only counted: they stay counted unless keys are chosen.
func (f Filter) Apply(s *monitor.Snapshot) *monitor.Snapshot {
	if !f.narrows() {
		return s
	}
	shown, tree := *s, f.Tree(s)
	shown.Locks = slices.DeleteFunc(slices.Clone(s.Locks), func(l monitor.Lock) bool { return !f.Shows(s, &l) })
	shown.Cycles = slices.DeleteFunc(slices.Clone(s.Cycles), func(c monitor.Cycle) bool {
		return !slices.ContainsFunc(c.Steps, func(step monitor.Step) bool { return f.showsStep(s.Database, step) })
	})
	shown.OtherWaits = slices.DeleteFunc(slices.Clone(s.OtherWaits), func(w monitor.OtherWait) bool { return tree.Node(w.ID()) == nil })
	shown.OtherSessions = slices.DeleteFunc(slices.Clone(s.OtherSessions), func(s monitor.Session) bool { return tree.Node(s.ID()) == nil })
	if len(f.Keys) > 0 {
		shown.WaitsElsewhere = 0
	}
	return &shown
}

// Tree returns the blocking tree of what the filter shows.
func (f Filter) Tree(s *monitor.Snapshot) *monitor.Tree {
	if !f.narrows() {
		return s.Tree()
	}
	return s.Tree().Of(f.locksOf(s), f.othersOf(s))
}

// Action returns the best action for what the filter shows.
func (f Filter) Action(s *monitor.Snapshot) monitor.Action {
	if !f.narrows() {
		return s.Action()
	}
	a := f.named(s).ActionOf(f.locksOf(s), f.othersOf(s))
	if len(f.Keys) == 0 {
		a.Elsewhere = s.WaitsElsewhere
	}
	return a
}

// Shows reports whether the filter shows a lock of a snapshot.
func (f Filter) Shows(s *monitor.Snapshot, lock *monitor.Lock) bool { return f.shows(s.Database, lock) }

func (f Filter) shows(connected string, lock *monitor.Lock) bool {
	return (!f.Here || lock.Database == connected) &&
		(len(f.Keys) == 0 || slices.ContainsFunc(f.Keys, func(key pglock.Key) bool { return key.ID() == lock.ID() }))
}

func (f Filter) showsStep(connected string, step monitor.Step) bool {
	key, err := pglock.ParseKey(step.Key)
	return (!f.Here || step.Database == connected) &&
		(len(f.Keys) == 0 || err == nil && slices.ContainsFunc(f.Keys, func(k pglock.Key) bool { return k.Equal(key) }))
}

func (f Filter) locksOf(s *monitor.Snapshot) func(*monitor.Lock) bool {
	return func(lock *monitor.Lock) bool { return f.Shows(s, lock) }
}

// othersOf shows waits for locks that are not advisory locks, whatever else they are connected with, unless keys are chosen.
func (f Filter) othersOf(s *monitor.Snapshot) func(*monitor.OtherWait) bool {
	return func(wait *monitor.OtherWait) bool { return len(f.Keys) == 0 && wait.Database == s.Database }
}

// named returns the snapshot with the names by which the filter's keys were chosen for locks that have none.
func (f Filter) named(all *monitor.Snapshot) *monitor.Snapshot {
	if len(f.Keys) == 0 {
		return all
	}
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
