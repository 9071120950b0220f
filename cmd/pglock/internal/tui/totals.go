package tui

import (
	"iter"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// totals counts all locks that may be shown, whatever the filter.
type totals struct {
	keys, inRows, holders int
	// waiters counts those for locks of every type, others those for locks that are not advisory locks, and elsewhere the
	// sessions that are not in the snapshot and wait for such locks.
	waiters, others, elsewhere int
	longest                    time.Duration
	// filtered is how many keys are left out by the filter or because they have no waiters; excluded
	// is how many may never be shown.
	filtered, excluded int
}

// keysOf returns an iterator over the locks of a snapshot.
func keysOf(s *monitor.Snapshot) iter.Seq[keyInfo] {
	return func(yield func(keyInfo) bool) {
		for i := range s.Locks {
			if !yield(keyInfo{lock: &s.Locks[i]}) {
				return
			}
		}
		for i := range s.RowLocks {
			if !yield(keyInfo{inRow: &s.RowLocks[i]}) {
				return
			}
		}
	}
}

// chooseLocks returns the locks that match, and counts all.
func chooseLocks(match matcher) (chosen []keyInfo, t totals) {
	s := match.snapshot
	for k := range keysOf(s) {
		if !match.allowed(k) {
			t.excluded++
			continue
		}
		t.keys, t.holders, t.waiters = t.keys+1, t.holders+k.holderCount(), t.waiters+k.waiterCount()
		if k.inRow != nil {
			t.inRows++
		}
		t.longest = max(t.longest, k.longestWait(s))
		if match.shows(k) {
			chosen = append(chosen, k)
		}
	}
	t.filtered = t.keys - len(chosen)
	t.others, t.elsewhere = s.OtherWaiters(), s.WaitsElsewhere
	t.waiters += t.others
	for i := range s.OtherWaits {
		t.longest = max(t.longest, waited(s, &s.OtherWaits[i].Waiter))
	}
	return chosen, t
}
