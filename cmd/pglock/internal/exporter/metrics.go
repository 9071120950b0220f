package exporter

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

var (
	up        = describe("pglock_up", "Whether the server answers: 1, or 0 if there is no snapshot of the last three intervals.")
	snapshots = describe("pglock_snapshots_total", "Snapshots that were tried since the exporter started.")
	failures  = describe("pglock_snapshot_errors_total", "Snapshots that failed since the exporter started.")

	serverInfo = describe("pglock_server_info",
		"The version of the server, and the database that provides names. Always 1.", "version", "database")
	takenAt   = describe("pglock_snapshot_timestamp_seconds", "When the snapshot was taken, by the server's clock.")
	deadlocks = describe("pglock_deadlocks", "Sessions that wait for each other in a circle. "+
		"The server ends certain ones; possible ones involve several sessions of one process.", "certainty")
	oldestTransaction = describe("pglock_oldest_snapshot_transactions", "The age, in transactions, of the oldest snapshot "+
		"or transaction of sessions that hold advisory locks or wait for them. It holds back vacuum.")

	locks      = describe("pglock_locks", "Advisory locks that are held or waited for, each counted once.", "database")
	holders    = describe("pglock_holders", "Holders of advisory locks; one for each lock that a session holds.", "database")
	waiters    = describe("pglock_waiters", "Sessions that wait for an advisory lock.", "database")
	oldestWait = describe("pglock_oldest_wait_seconds", "How long the longest wait has lasted; 0 without waiters. "+
		"Waits of candidates for an election, for a permit of a semaphore and for the run of a job do not count.", "database")
	otherWaiters = describe("pglock_other_waiters", "Sessions that wait for locks that are not advisory locks, of any database.")
	oldestOther  = describe("pglock_oldest_other_wait_seconds", "How long the longest wait for another lock has lasted; "+
		"with --advisory of those that are part of a chain with an advisory lock. It is missing if there are only others.")
	preparedHolders = describe("pglock_prepared_holders",
		"Holders that are prepared transactions; one for each lock that it holds.", "database")
	oldestHolder = describe("pglock_oldest_holder_seconds", "The longest time that a holder can have had its lock, at most: "+
		"the age of its transaction or, outside of one, of its session. Leaders, permits and runs of jobs do not count.", "database")
	idleBlocker = describe("pglock_idle_blocker_seconds",
		"The longest time that a session which blocks others has been idle in transaction; 0 without one. It is missing instead of 0 "+
			"while sessions wait of which it is not known what blocks them: with --advisory, those without an advisory lock.", "database")

	keyHolders    = describe("pglock_key_holders", "Holders of a key that is or was waited for.", "database", "key")
	keyWaiters    = describe("pglock_key_waiters", "Sessions that wait for a key.", "database", "key")
	keyOldestWait = describe("pglock_key_oldest_wait_seconds", "How long the longest wait for a key has lasted, "+
		"as pglock_oldest_wait_seconds.", "database", "key")
	keyOldestHolder = describe("pglock_key_oldest_holder_seconds", "The longest time that a holder can have had a key, "+
		"as pglock_oldest_holder_seconds.", "database", "key")
	keyInfo = describe("pglock_key_info", "The name of a key or, if it has none, what is known about it. Always 1.",
		"database", "key", "name")

	tableNominal = describe("pglock_lock_table_nominal_entries", "The nominal size of the server's lock table, which is not "+
		"a hard limit: max_locks_per_transaction × (max_connections + max_prepared_transactions).")
	tableUsed = describe("pglock_lock_table_entries", "Entries of the lock table that are in use, at least. "+
		"Locks of all kinds share it.")
	tableAdvisory = describe("pglock_lock_table_advisory_entries", "Entries of the lock table that are advisory locks.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// collector has the metrics of a server, as one scrape shows them.
type collector struct {
	state         state
	keys, rowKeys *keyLabels
	waits         *waitCounters
}

// Describe implements [prometheus.Collector]. A server that does not answer lacks most metrics, so none is promised.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. While the server does not answer, only the metrics about the exporter are
// collected, since outdated values are not repeated.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	s, to := c.state, sink(metrics)
	to.gauge(up, boolean(s.snapshot != nil))
	to.counter(snapshots, s.snapshots)
	to.counter(failures, s.failures)
	if s.snapshot == nil {
		c.waits.sendTo(to, nil)
		return
	}
	to.server(s.snapshot)
	to.databases(s.snapshot)
	shown := c.keys.measure(s.snapshot)
	c.waits.sendTo(to, shown)
	to.rows(s.snapshot, c.rowKeys)
	for at, c := range shown {
		to.gauge(keyHolders, float64(c.holders), at.database, at.key)
		to.gauge(keyWaiters, float64(c.waiters), at.database, at.key)
		to.gauge(keyOldestWait, c.oldest.Seconds(), at.database, at.key)
		to.gauge(keyOldestHolder, c.held.Seconds(), at.database, at.key)
		to.gauge(keyInfo, 1, at.database, at.key, c.name)
	}
	to.gauge(tableNominal, float64(s.snapshot.Capacity.Nominal))
	to.gauge(tableUsed, float64(s.snapshot.Capacity.Used))
	to.gauge(tableAdvisory, float64(s.snapshot.Capacity.Advisory))
}

// sink is where the series of a server go.
type sink chan<- prometheus.Metric

func (to sink) gauge(metric *prometheus.Desc, value float64, labels ...string) {
	for i, label := range labels {
		labels[i] = valid(label)
	}
	to <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, value, labels...)
}

func (to sink) counter(metric *prometheus.Desc, value int) {
	to <- prometheus.MustNewConstMetric(metric, prometheus.CounterValue, float64(value))
}

// valid returns a name as a valid label. Names that differ only in invalid UTF-8 share a label, so their series are summed.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func (to sink) server(s *monitor.Snapshot) {
	certain, possible := 0, 0
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			certain++
		} else {
			possible++
		}
	}
	to.gauge(serverInfo, 1, s.ServerVersion, s.Database)
	to.gauge(takenAt, float64(s.TakenAt.UnixNano())/float64(time.Second))
	to.gauge(deadlocks, float64(certain), "certain")
	to.gauge(deadlocks, float64(possible), "possible")
	to.gauge(oldestTransaction, float64(oldestSnapshot(s)))
	to.gauge(otherWaiters, float64(view.OtherWaiters(s)+s.WaitsElsewhere))
	oldest := time.Duration(0)
	for _, wait := range s.OtherWaits {
		oldest = max(oldest, waited(s, wait.Waiter))
	}
	if oldest > 0 || s.WaitsElsewhere == 0 {
		to.gauge(oldestOther, oldest.Seconds())
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

// databases sends the sums by database, which do not depend on the bound on keys.
func (to sink) databases(s *monitor.Snapshot) {
	type sums struct {
		contention
		locks, prepared int
	}
	found := map[string]sums{valid(s.Database): {}} // there is always one, so that graphs show zeros
	for _, lock := range s.Locks {
		if lock.InRow {
			continue
		}
		database := valid(lock.Database)
		sum := found[database]
		sum.locks++
		sum.contention = sum.plus(contentionOf(s, lock))
		for _, holder := range lock.Holders {
			if holder.Prepared() {
				sum.prepared++
			}
		}
		found[database] = sum
	}
	idleFor, allKnown := idleBlockers(s), s.WaitsElsewhere == 0 && s.BlockersMissing == ""
	for database := range idleFor {
		if _, known := found[database]; !known { // a session can block others with locks of other types only
			found[database] = sums{}
		}
	}
	for database, sum := range found {
		to.gauge(locks, float64(sum.locks), database)
		to.gauge(holders, float64(sum.holders), database)
		to.gauge(waiters, float64(sum.waiters), database)
		to.gauge(oldestWait, sum.oldest.Seconds(), database)
		to.gauge(preparedHolders, float64(sum.prepared), database)
		to.gauge(oldestHolder, sum.held.Seconds(), database)
		if idle := idleFor[database]; idle > 0 || allKnown {
			to.gauge(idleBlocker, idle.Seconds(), database)
		}
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
