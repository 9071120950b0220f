package exporter

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

var (
	rowLocksReadable = describe("pglock_row_locks_readable", "Whether locks in rows could be read: 1, or 0, and then "+
		"pglock_row_locks and the like are missing, and pglock's log says why. It is 1 where schema pglock has none.", "database")
	rowLeaseLeft = describe("pglock_row_lease_left_seconds", "The shortest time for which the lease of a holder lasts if "+
		"the holder does not renew it; negative if it is over.", "database")
)

// rowsUnread returns why locks in rows could not be read, or "". If only some were left out, there are others.
func rowsUnread(s *monitor.Snapshot) string {
	if slices.ContainsFunc(s.Locks, func(l monitor.Lock) bool { return l.InRow }) {
		return ""
	}
	return view.RowsMissing(s)
}

// rows sends the series of locks in rows. Only one is left if these locks could not be read.
func (to sink) rows(s *monitor.Snapshot, keys *keyLabels) {
	database, readable := valid(s.Database), rowsUnread(s) == ""
	to.gauge(rowLocksReadable, boolean(readable), database)
	if !readable {
		return
	}
	var sum contention
	all := contentions(s, true)
	for _, c := range all {
		sum = sum.plus(c)
	}
	to.sums(inRows, database, sum)
	to.keys(inRows, keys.choose(all, s.TakenAt))
	if left, known := leaseLeft(s); known {
		to.gauge(rowLeaseLeft, left.Seconds(), database)
	}
}

// leaseLeft returns the shortest time for which a holder's lease lasts.
func leaseLeft(s *monitor.Snapshot) (shortest time.Duration, known bool) {
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			if left, ok := holder.Lease.Left(s.TakenAt); ok && (!known || left < shortest) {
				shortest, known = left, true
			}
		}
	}
	return shortest, known
}
