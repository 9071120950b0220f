package exporter

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/monitor"
)

var (
	lockWaits = describe("pglock_server_lock_waits_total", "Waits for locks of a type, as the server counts them in "+
		"pg_stat_lock (PostgreSQL 19).", "type")
	lockWaitSeconds = describe("pglock_server_lock_wait_seconds_total", "How long these waits lasted.", "type")
)

// LockStat is what the server has counted about locks of a type since its statistics were reset.
type LockStat struct {
	// Type is the type of lock, as in pg_locks.
	Type string
	// Waits is how many waits there were, and Milliseconds how long they lasted.
	Waits        int64
	Milliseconds float64
}

// readLockStats is not among the statements that sqlc compiles, whose catalog lacks the view.
const readLockStats = `SELECT l.locktype, l.waits::pg_catalog.int8, l.wait_time::pg_catalog.float8 FROM pg_catalog.pg_stat_lock AS l`

// ReadLockStats reads what the server that s is of has counted. Before PostgreSQL 19 that is nothing.
func ReadLockStats(ctx context.Context, db monitor.DBTX, s *monitor.Snapshot) ([]LockStat, error) {
	if major(s.ServerVersion) < 19 {
		return nil, nil
	}
	rows, err := db.Query(ctx, readLockStats)
	if err == nil {
		var stats []LockStat
		if stats, err = pgx.CollectRows(rows, pgx.RowToStructByPos[LockStat]); err == nil {
			return stats, nil
		}
	}
	return nil, fmt.Errorf("read pg_stat_lock: %w", err)
}

// major returns the number with which a server's version begins, or 0.
func major(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	n, err := strconv.Atoi(version[:end])
	if err != nil {
		return 0
	}
	return n
}

func (to sink) lockStats(stats []LockStat) {
	for _, s := range stats {
		to <- prometheus.MustNewConstMetric(lockWaits, prometheus.CounterValue, float64(s.Waits), valid(s.Type))
		to <- prometheus.MustNewConstMetric(lockWaitSeconds, prometheus.CounterValue, s.Milliseconds/1000, valid(s.Type))
	}
}
