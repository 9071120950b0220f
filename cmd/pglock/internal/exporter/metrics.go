package exporter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// buildInfo is the only metric that is not about a server.
const buildInfo = "pglock_exporter_build_info"

// families returns the metrics of a server. While the server does not answer they are only those about the exporter, since
// outdated values are not repeated.
func families(s state, keys *keyLabels, version string) []family {
	all := []family{
		gauge("pglock_up", "Whether the last snapshot of the server worked: 1, or 0.", boolean(s.err == nil)),
		{buildInfo, "gauge", "The version of the exporter. Always 1.", []sample{{[]label{{"version", version}}, 1}}},
		gauge("pglock_scrape_duration_seconds", "How long the last snapshot took, including the round trip to the server.",
			s.duration.Seconds()),
		counter("pglock_snapshots_total", "Snapshots that were tried since the exporter started.", s.snapshots),
		counter("pglock_snapshot_errors_total", "Snapshots that failed since the exporter started.", s.failures),
	}
	if s.snapshot == nil {
		return all
	}
	all = append(all, aboutServer(s.snapshot)...)
	all = append(all, byDatabase(s.snapshot)...)
	all = append(all, byKey(keys.measure(s.snapshot))...)
	return append(all, lockTable(s.snapshot.Capacity)...)
}

func aboutServer(s *monitor.Snapshot) []family {
	certain, possible := 0, 0
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			certain++
		} else {
			possible++
		}
	}
	return []family{
		{"pglock_server_info", "gauge", "The version of the server, and the database that provides names. Always 1.",
			[]sample{{[]label{{"version", s.ServerVersion}, {"database", s.Database}}, 1}}},
		gauge("pglock_snapshot_timestamp_seconds", "When the snapshot was taken, by the server's clock.",
			float64(s.TakenAt.UnixNano())/float64(time.Second)),
		{"pglock_deadlocks", "gauge", "Sessions that wait for each other in a circle. " +
			"The server ends certain ones; possible ones involve several sessions of one process.",
			[]sample{{[]label{{"certainty", "certain"}}, float64(certain)},
				{[]label{{"certainty", "possible"}}, float64(possible)}}},
		gauge("pglock_oldest_snapshot_transactions", "The age, in transactions, of the oldest snapshot or transaction of "+
			"sessions that hold advisory locks or wait for them. It holds back vacuum.", float64(oldestSnapshot(s))),
	}
}

func oldestSnapshot(s *monitor.Snapshot) (oldest int64) {
	consider := func(session monitor.Session) {
		for _, age := range []*int64{session.XminAge, session.XIDAge} {
			if age != nil {
				oldest = max(oldest, *age)
			}
		}
	}
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			consider(holder.Session)
		}
		for _, waiter := range lock.Waiters {
			consider(waiter.Session)
		}
	}
	return oldest
}

// byDatabase returns the sums by database, which do not depend on the bound on keys.
func byDatabase(s *monitor.Snapshot) []family {
	type sums struct {
		contention
		locks, prepared int
		held            time.Duration
	}
	found := map[string]sums{valid(s.Database): {}} // there is always one, so that graphs show zeros
	for _, lock := range s.Locks {
		database := valid(lock.Database)
		sum := found[database]
		sum.locks++
		c := contentionOf(s, lock)
		if lock.Kind == monitor.KindLeader {
			c.oldest = 0 // candidates wait as long as there is a leader, which must not cause an alert
		}
		sum.contention = sum.plus(c)
		for _, holder := range lock.Holders {
			if holder.Prepared() {
				sum.prepared++
			}
			sum.held = max(sum.held, heldFor(s, holder.Session))
		}
		found[database] = sum
	}
	locks := family{"pglock_locks", "gauge", "Advisory locks that are held or waited for, each counted once.", nil}
	holders := family{"pglock_holders", "gauge", "Holders of advisory locks; one for each lock that a session holds.", nil}
	waiters := family{"pglock_waiters", "gauge", "Sessions that wait for an advisory lock.", nil}
	oldest := family{"pglock_oldest_wait_seconds", "gauge", "How long the longest wait has lasted; 0 without waiters. " +
		"Candidates that wait to become leader (package leader) are not counted.", nil}
	prepared := family{"pglock_prepared_holders", "gauge",
		"Holders that are prepared transactions; one for each lock that it holds.", nil}
	held := family{"pglock_oldest_holder_seconds", "gauge", "The longest time that a holder can have had its lock, at most: " +
		"the age of its transaction or, outside of one, of its session.", nil}
	idle := family{"pglock_idle_blocker_seconds", "gauge",
		"The longest time that a session which blocks others has been idle in transaction; 0 without one.", nil}
	idleFor := idleBlockers(s)
	for database := range idleFor {
		if _, known := found[database]; !known { // a session can block others with locks of other types only
			found[database] = sums{}
		}
	}
	for _, database := range slices.Sorted(maps.Keys(found)) {
		sum, labels := found[database], []label{{"database", database}}
		locks.samples = append(locks.samples, sample{labels, float64(sum.locks)})
		holders.samples = append(holders.samples, sample{labels, float64(sum.holders)})
		waiters.samples = append(waiters.samples, sample{labels, float64(sum.waiters)})
		oldest.samples = append(oldest.samples, sample{labels, sum.oldest.Seconds()})
		prepared.samples = append(prepared.samples, sample{labels, float64(sum.prepared)})
		held.samples = append(held.samples, sample{labels, sum.held.Seconds()})
		idle.samples = append(idle.samples, sample{labels, idleFor[database].Seconds()})
	}
	return []family{locks, holders, waiters, oldest, prepared, held, idle}
}

func byKey(measured map[keyLabel]contention) []family {
	holders := family{"pglock_key_holders", "gauge", "Holders of a key that is or was waited for.", nil}
	waiters := family{"pglock_key_waiters", "gauge", "Sessions that wait for a key.", nil}
	oldest := family{"pglock_key_oldest_wait_seconds", "gauge", "How long the longest wait for a key has lasted.", nil}
	places := slices.SortedFunc(maps.Keys(measured), func(a, b keyLabel) int {
		return cmp.Or(cmp.Compare(a.database, b.database), cmp.Compare(a.key, b.key))
	})
	for _, at := range places {
		c, labels := measured[at], []label{{"database", at.database}, {"key", at.key}}
		holders.samples = append(holders.samples, sample{labels, float64(c.holders)})
		waiters.samples = append(waiters.samples, sample{labels, float64(c.waiters)})
		oldest.samples = append(oldest.samples, sample{labels, c.oldest.Seconds()})
	}
	return []family{holders, waiters, oldest}
}

func lockTable(c monitor.Capacity) []family {
	return []family{
		gauge("pglock_lock_table_nominal_entries", "The nominal size of the server's lock table, which is not a hard limit: "+
			"max_locks_per_transaction × (max_connections + max_prepared_transactions).", float64(c.Nominal)),
		gauge("pglock_lock_table_entries", "Entries of the lock table that are in use, at least. "+
			"Locks of all kinds share it.", float64(c.Used)),
		gauge("pglock_lock_table_advisory_entries", "Entries of the lock table that are advisory locks.",
			float64(c.Advisory)),
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
