// Package view writes snapshots of advisory locks for people (a table that fits a terminal) and for programs (JSON,
// CSV). It only writes: what is in a snapshot, and what of it is hidden, is for package monitor to know.
package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Filter says which locks of a snapshot are shown. The zero value shows all.
type Filter struct {
	// Keys are the keys to show, in whichever database; none means all.
	Keys []pglock.Key
	// Waiting leaves out locks without waiters.
	Waiting bool
}

// Apply returns a copy of the snapshot with only the locks to be shown.
func (f Filter) Apply(s *monitor.Snapshot) *monitor.Snapshot {
	shown := *s
	shown.Locks = slices.DeleteFunc(slices.Clone(s.Locks), func(lock monitor.Lock) bool { return !f.Shows(lock) })
	return &shown
}

// nameKeys gives the locks of a copy that Apply made the names that they were chosen by, if they have none.
func (f Filter) nameKeys(s *monitor.Snapshot) {
	for i := range s.Locks {
		lock := &s.Locks[i]
		for _, key := range f.Keys {
			if key.Name() != "" && key.ID() == lock.ID() && len(lock.Names) == 0 {
				lock.Key, lock.Names = key.String(), []string{key.Name()}
			}
		}
	}
}

// Shows reports whether a lock is among those to be shown.
func (f Filter) Shows(lock monitor.Lock) bool {
	if f.Waiting && len(lock.Waiters) == 0 {
		return false
	}
	return len(f.Keys) == 0 || slices.ContainsFunc(f.Keys, func(key pglock.Key) bool { return key.ID() == lock.ID() })
}
