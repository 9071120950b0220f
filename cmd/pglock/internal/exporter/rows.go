package exporter

import (
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

var (
	rowLocksReadable = describe("pglock_row_locks_readable", "Whether locks in rows could be read: 1, or 0, and then "+
		"pglock_row_locks and the like are missing, and pglock's log says why. It is 1 where schema pglock has none.", "database")
	rowLocks = describe("pglock_row_locks", "Locks in rows that are held or waited for. Of the holders and waiters of "+
		"locks in rows at most 1000 each are read.", "database")
	rowHolders      = describe("pglock_row_holders", "Holders of locks in rows; one for each lock that a process holds.", "database")
	rowWaiters      = describe("pglock_row_waiters", "Processes that wait for a lock in a row; one for each lock.", "database")
	rowOldestWait   = describe("pglock_row_oldest_wait_seconds", "As pglock_oldest_wait_seconds, for locks in rows.", "database")
	rowOldestHolder = describe("pglock_row_oldest_holder_seconds", "How long the oldest holder has had its lock in a row. "+
		"Leaders, permits and runs of jobs do not count.", "database")
	rowLeaseLeft = describe("pglock_row_lease_left_seconds", "The shortest time for which the lease of a holder lasts if "+
		"the holder does not renew it; negative if it is over.", "database")

	rowKeyHolders    = describe("pglock_row_key_holders", "As pglock_key_holders, for locks in rows.", "database", "key")
	rowKeyWaiters    = describe("pglock_row_key_waiters", "As pglock_key_waiters, for locks in rows.", "database", "key")
	rowKeyOldestWait = describe("pglock_row_key_oldest_wait_seconds", "As pglock_key_oldest_wait_seconds, for locks in rows.",
		"database", "key")
	rowKeyOldestHolder = describe("pglock_row_key_oldest_holder_seconds",
		"As pglock_row_oldest_holder_seconds, of a key.", "database", "key")
	rowKeyInfo = describe("pglock_row_key_info", "As pglock_key_info, for locks in rows.", "database", "key", "name")
)

// rowsUnread returns why locks in rows could not be read, or "". If only some were left out, there are others.
func rowsUnread(s *monitor.Snapshot) string {
	if slices.ContainsFunc(s.Locks, func(l monitor.Lock) bool { return l.InRow }) {
		return ""
	}
	return s.RowLocksMissing
}

// rows sends the series of locks in rows. Only one is left if these locks could not be read.
func (to sink) rows(s *monitor.Snapshot, keys *keyLabels) {
	var sum contention
	all, database := map[keyLabel]contention{}, valid(s.Database)
	readable := rowsUnread(s) == ""
	to.gauge(rowLocksReadable, boolean(readable), database)
	if !readable {
		return
	}
	for _, lock := range s.Locks {
		if !lock.InRow {
			continue
		}
		c := rowContention(s, lock)
		all[keyLabel{database, lock.RawKey()}] = c
		sum = sum.plus(c)
	}
	to.gauge(rowLocks, float64(len(all)), database)
	to.gauge(rowHolders, float64(sum.holders), database)
	to.gauge(rowWaiters, float64(sum.waiters), database)
	to.gauge(rowOldestWait, sum.oldest.Seconds(), database)
	to.gauge(rowOldestHolder, sum.held.Seconds(), database)
	if left, known := leaseLeft(s); known {
		to.gauge(rowLeaseLeft, left.Seconds(), database)
	}
	for at, c := range keys.choose(all, s.TakenAt) {
		to.gauge(rowKeyHolders, float64(c.holders), at.database, at.key)
		to.gauge(rowKeyWaiters, float64(c.waiters), at.database, at.key)
		to.gauge(rowKeyOldestWait, c.oldest.Seconds(), at.database, at.key)
		to.gauge(rowKeyOldestHolder, c.held.Seconds(), at.database, at.key)
		to.gauge(rowKeyInfo, 1, at.database, at.key, c.name)
	}
}

func rowContention(s *monitor.Snapshot, lock monitor.Lock) contention {
	c := contention{holders: len(lock.Holders), waiters: len(lock.Waiters), name: shorten(valid(strings.TrimSuffix(lock.Label(), " (row)")))}
	for _, waiter := range lock.Waiters {
		if waiter.Expected {
			continue
		}
		c.oldest = max(c.oldest, s.TakenAt.Sub(*waiter.WaitingSince))
	}
	for _, holder := range lock.Holders {
		if slices.Contains([]string{"leader", "semaphore", "tick"}, lock.Kind) {
			break // it is held for as long as a leader leads
		}
		c.held = max(c.held, s.TakenAt.Sub(*holder.SeenSince))
	}
	return c
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
