package monitor

import (
	"cmp"
	"slices"
)

// Capacity says how full the server's lock table is. Locks of all kinds share the table. When it is full, sessions fail
// with "out of shared memory".
//
// The numbers are a lower bound of the use. Nominal is the size that the server reserves. The table can grow beyond
// that while there is spare shared memory, so 100 % is not a hard limit
// (https://www.postgresql.org/docs/current/runtime-config-locks.html).
type Capacity struct {
	// Nominal is MaxLocksPerTransaction × (MaxConnections + MaxPreparedTransactions).
	Nominal int64 `json:"nominal"`
	// Used is the number of different objects that are locked or waited for in the lock table. Locks that PostgreSQL
	// keeps in a session's own memory (fastpath in pg_locks) and predicate locks are not in the table. The locks that
	// the monitor's own session takes to read it are not counted.
	Used int64 `json:"used"`
	// Advisory is how many of Used are advisory locks, in all databases.
	Advisory int64 `json:"advisory"`

	// The settings that Nominal comes from.
	MaxLocksPerTransaction  int64 `json:"max_locks_per_transaction"`
	MaxConnections          int64 `json:"max_connections"`
	MaxPreparedTransactions int64 `json:"max_prepared_transactions"`

	// Top has the sessions and prepared transactions with the most locks of any kind in the lock table: at most ten,
	// sorted by the number of locks.
	Top []SessionLoad `json:"top"`
}

// SessionLoad says how much of the lock table one session uses.
type SessionLoad struct {
	Session
	// Locks counts the session's entries, held and waited for; a lock that it holds in two modes counts twice.
	Locks int64 `json:"locks"`
}

// topSessions is the most sessions in Capacity.Top.
const topSessions = 10

// Percent is Used in percent of Nominal: the lock table is at least that full.
func (c Capacity) Percent() float64 {
	if c.Nominal <= 0 {
		return 0
	}
	return 100 * float64(c.Used) / float64(c.Nominal)
}

// top returns the sessions with the most locks.
func top(loads []SessionLoad) []SessionLoad {
	slices.SortFunc(loads, func(a, b SessionLoad) int {
		return cmp.Or(cmp.Compare(b.Locks, a.Locks), cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
	})
	return loads[:min(len(loads), topSessions)]
}

func capacity(t tables, found map[string]Session, advisory int) Capacity {
	c := Capacity{
		MaxLocksPerTransaction:  t.server.MaxLocksPerTransaction,
		MaxConnections:          t.server.MaxConnections,
		MaxPreparedTransactions: t.server.MaxPreparedTransactions,
	}
	c.Nominal = c.MaxLocksPerTransaction * (c.MaxConnections + c.MaxPreparedTransactions)
	c.Advisory = int64(advisory)
	c.Used = c.Advisory + t.rows[0].OtherEntries
	c.Top = top(loads(t, found))
	return c
}

func loads(t tables, found map[string]Session) []SessionLoad {
	entries := map[string]int64{}
	for _, row := range t.rows {
		if row.Entries.Int64 > 0 {
			entries[row.Owner] = row.Entries.Int64
		}
	}
	all := []SessionLoad{}
	for owner, n := range entries {
		all = append(all, SessionLoad{Session: found[owner], Locks: n})
	}
	return all
}
