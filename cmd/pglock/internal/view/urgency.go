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
	return cmp.Or(cmp.Compare(certainB, certainA), cmp.Compare(longestB.lasted, longestA.lasted),
		cmp.Compare(waiterCount(b), waiterCount(a)))
}

func absent(s *monitor.Snapshot) int {
	if s == nil {
		return 1
	}
	return 0
}

func waiterCount(s *monitor.Snapshot) (n int) {
	for _, lock := range s.Locks {
		n += len(lock.Waiters)
	}
	return n
}

// Summary is one line about what the filter shows of the server target.
func Summary(all *monitor.Snapshot, filter Filter, target string) string {
	s := filter.Apply(all)
	holders := 0
	for _, lock := range s.Locks {
		holders += len(lock.Holders)
	}
	text := fmt.Sprintf("%s%s  %s, %s, %s", Printable(target), StandbyMark(s), count(len(s.Locks), "key"),
		count(holders, "holder"), count(waiterCount(s), "waiter"))
	if longest, _ := longestWait(s); longest.lasted > 0 {
		text += ", longest wait " + Age(longest.lasted)
	}
	if certain, _ := deadlocks(s); certain > 0 {
		text += ", " + count(certain, "deadlock")
	}
	return text
}
