package exporter

import (
	"cmp"
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
	build     = describe("pglock_exporter_build_info", "The version of the exporter. Always 1.", "version")

	serverInfo = describe("pglock_server_info",
		"The version of the server, and the database that provides names. Always 1.", "version", "database")
	takenAt   = describe("pglock_snapshot_timestamp_seconds", "When the snapshot was taken, by the server's clock.")
	deadlocks = describe("pglock_deadlocks", "Sessions that wait for each other in a circle. "+
		"The server ends certain ones; possible ones involve several sessions of one process.", "certainty")
	oldestTransaction = describe("pglock_oldest_snapshot_transactions", "The age, in transactions, of the oldest snapshot "+
		"or transaction of sessions that hold advisory locks or wait for them. It holds back vacuum.")

	otherWaiters = describe("pglock_other_waiters", "Sessions that wait for locks that are not advisory locks, of any database.")
	oldestOther  = describe("pglock_oldest_other_wait_seconds", "How long the longest wait for another lock has lasted; "+
		"with --advisory of those that are part of a chain with an advisory lock. It is missing if there are only others.")
	preparedHolders = describe("pglock_prepared_holders",
		"Holders that are prepared transactions; one for each lock that it holds.", "database")
	idleBlocker = describe("pglock_idle_blocker_seconds",
		"The longest time that a session which blocks others has been idle in transaction; 0 without one. It is missing instead of 0 "+
			"while sessions wait of which it is not known what blocks them: with --advisory, those without an advisory lock.", "database")

	actionFrees = describe("pglock_action_frees", "The sessions that the best action frees at once, at least. "+
		"Its kind is cancel, terminate, rollback, or none if nothing waits or no signal helps.", "kind")
	actionAtMost = describe("pglock_action_frees_at_most", "The sessions that the best action frees sooner or later, at most.", "kind")

	tableNominal = describe("pglock_lock_table_nominal_entries", "The nominal size of the server's lock table, which is not "+
		"a hard limit: max_locks_per_transaction × (max_connections + max_prepared_transactions).")
	tableUsed = describe("pglock_lock_table_entries", "Entries of the lock table that are in use, at least. "+
		"Locks of all kinds share it.")
	tableAdvisory = describe("pglock_lock_table_advisory_entries", "Entries of the lock table that are advisory locks.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// family has the metrics of advisory locks, or those of locks in rows.
type family struct {
	locks, holders, waiters, oldestWait, oldestHolder               *prometheus.Desc // by database
	keyHolders, keyWaiters, keyOldestWait, keyOldestHolder, keyInfo *prometheus.Desc // by database and key
}

var (
	advisory = newFamily("pglock_", "advisory locks")
	inRows   = newFamily("pglock_row_", "locks in rows")
)

func newFamily(prefix, what string) family {
	const oldest = "Waits of candidates for an election, for a permit of a semaphore and for the run of a job do not count."
	const bound = "The longest time that a holder can have had its lock, at most: the age of its transaction or, outside of one, " +
		"of its session; of locks in rows exactly. Leaders, permits and runs of jobs do not count."
	by := func(name, help string, labels ...string) *prometheus.Desc {
		return describe(prefix+name, strings.ToUpper(what[:1])+what[1:]+": "+help, append([]string{"database"}, labels...)...)
	}
	return family{
		locks:           by("locks", "those that are held or waited for, each counted once."),
		holders:         by("holders", "holders; one for each lock that a session or process holds."),
		waiters:         by("waiters", "sessions or processes that wait for one."),
		oldestWait:      by("oldest_wait_seconds", "how long the longest wait has lasted; 0 without waiters. "+oldest),
		oldestHolder:    by("oldest_holder_seconds", bound),
		keyHolders:      by("key_holders", "holders of a key that is or was waited for.", "key"),
		keyWaiters:      by("key_waiters", "sessions or processes that wait for a key.", "key"),
		keyOldestWait:   by("key_oldest_wait_seconds", "how long the longest wait for a key has lasted. "+oldest, "key"),
		keyOldestHolder: by("key_oldest_holder_seconds", bound, "key"),
		keyInfo:         by("key_info", "the name of a key or, if it has none, what is known about it. Always 1.", "key", "name"),
	}
}

// sums sends the sums of a database.
func (to sink) sums(f family, database string, c contention) {
	to.gauge(f.locks, float64(c.locks), database)
	to.gauge(f.holders, float64(c.holders), database)
	to.gauge(f.waiters, float64(c.waiters), database)
	to.gauge(f.oldestWait, c.oldest.Seconds(), database)
	to.gauge(f.oldestHolder, c.held.Seconds(), database)
}

// keys sends the series of keys.
func (to sink) keys(f family, shown map[keyLabel]contention) {
	for at, c := range shown {
		to.gauge(f.keyHolders, float64(c.holders), at.database, at.key)
		to.gauge(f.keyWaiters, float64(c.waiters), at.database, at.key)
		to.gauge(f.keyOldestWait, c.oldest.Seconds(), at.database, at.key)
		to.gauge(f.keyOldestHolder, c.held.Seconds(), at.database, at.key)
		to.gauge(f.keyInfo, 1, at.database, at.key, c.name)
	}
}

// collector has the metrics of a server, as one scrape shows them.
type collector struct {
	state         state
	keys, rowKeys *keyLabels
	version       string
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
	to.gauge(build, 1, c.version)
	if s.snapshot == nil {
		return
	}
	to.server(s.snapshot)
	to.action(s.snapshot.Action())
	locks := contentions(s.snapshot, false)
	to.databases(s.snapshot, locks)
	to.keys(advisory, c.keys.choose(locks, s.snapshot.TakenAt))
	to.rows(s.snapshot, c.rowKeys)
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

func (to sink) action(a monitor.Action) {
	kind := cmp.Or(a.Signal, "none")
	to.gauge(actionFrees, float64(a.Frees), kind)
	to.gauge(actionAtMost, float64(a.AtMost), kind)
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
func (to sink) databases(s *monitor.Snapshot, locks map[keyLabel]contention) {
	found := map[string]contention{valid(s.Database): {}} // there is always one, so that graphs show zeros
	for at, c := range locks {
		found[at.database] = found[at.database].plus(c)
	}
	idleFor, allKnown := idleBlockers(s), s.WaitsElsewhere == 0 && s.BlockersMissing == ""
	for database := range idleFor {
		if _, known := found[database]; !known { // a session can block others with locks of other types only
			found[database] = contention{}
		}
	}
	for database, sum := range found {
		to.sums(advisory, database, sum)
		to.gauge(preparedHolders, float64(sum.prepared), database)
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
