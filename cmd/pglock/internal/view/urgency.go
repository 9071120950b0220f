package view

import (
	"cmp"
	"fmt"

	"github.com/pglock-toolkit/pglock/monitor"
)

// CompareUrgency orders snapshots of several servers, the worst first: those with more certain deadlocks, then those
// with the longer wait, then those with more waiters. Nil is last.
func CompareUrgency(a, b *monitor.Snapshot) int {
	if a == nil || b == nil {
		return cmp.Compare(absent(a), absent(b))
	}
	certainA, _ := deadlocks(a)
	certainB, _ := deadlocks(b)
	longestA, _ := longestWait(a)
	longestB, _ := longestWait(b)
	inRowA, _ := longestRowWait(a)
	inRowB, _ := longestRowWait(b)
	_, waitersA := parties(a)
	_, waitersB := parties(b)
	_, rowWaitersA := RowParties(a)
	_, rowWaitersB := RowParties(b)
	return cmp.Or(cmp.Compare(certainB, certainA), cmp.Compare(max(longestB.lasted, inRowB), max(longestA.lasted, inRowA)),
		cmp.Compare(waitersB+rowWaitersB, waitersA+rowWaitersA))
}

func absent(s *monitor.Snapshot) int {
	if s == nil {
		return 1
	}
	return 0
}

// parties counts holders and waiters.
func parties(s *monitor.Snapshot) (holders, waiters int) {
	for _, lock := range s.Locks {
		holders, waiters = holders+len(lock.Holders), waiters+len(lock.Waiters)
	}
	return holders, waiters
}

// counts describes the numbers of locks, holders and waiters.
func counts(s *monitor.Snapshot) string {
	holders, waiters := parties(s)
	text := fmt.Sprintf("%s, %s, %s", count(len(s.Locks), "key"), count(holders, "holder"), count(waiters, "waiter"))
	if others := s.OtherWaiters(); others > 0 {
		text += fmt.Sprintf(", %d waiting for other locks", others)
	}
	return text
}

// Summary is one line about the locks that the filter shows on the server target.
func Summary(all *monitor.Snapshot, filter Filter, target string) string {
	s := filter.Apply(all)
	text := fmt.Sprintf("%s%s  %s", Printable(target), StandbyMark(s), counts(s))
	if len(s.RowLocks) > 0 {
		text += "; in rows " + rowCounts(s)
	}
	longest, _ := longestWait(s)
	if inRow, _ := longestRowWait(s); max(longest.lasted, inRow) > 0 {
		text += ", longest wait " + Age(max(longest.lasted, inRow))
	}
	if certain, _ := deadlocks(s); certain > 0 {
		text += ", " + count(certain, "deadlock")
	}
	return text
}
