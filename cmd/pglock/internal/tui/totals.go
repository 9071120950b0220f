package tui

import (
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
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

// chooseLocks returns the locks that match, and counts all.
func chooseLocks(match matcher) (chosen []*monitor.Lock, t totals) {
	s := match.snapshot
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !match.allowed(lock) {
			t.excluded++
			continue
		}
		t.keys, t.holders, t.waiters = t.keys+1, t.holders+len(lock.Holders), t.waiters+len(lock.Waiters)
		if lock.InRow {
			t.inRows++
		}
		t.longest = max(t.longest, longestWait(s, lock))
		if match.shows(lock) {
			chosen = append(chosen, lock)
		}
	}
	t.filtered = t.keys - len(chosen)
	t.others, t.elsewhere = view.OtherWaiters(s), s.WaitsElsewhere
	t.waiters += t.others
	for i := range s.OtherWaits {
		t.longest = max(t.longest, waited(s, &s.OtherWaits[i].Waiter))
	}
	return chosen, t
}
