package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Limits for the lock table, in percent of its nominal size.
const (
	noticePercent = 50
	fullPercent   = 80
)

func lockTable(f facts) Finding {
	const check = "lock-table"
	c := f.snapshot.Capacity
	what := fmt.Sprintf("the lock table is at least %.0f %% full: %d of nominally %d entries (max_locks_per_transaction "+
		"%d × (max_connections %d + max_prepared_transactions %d)), %d of them advisory", c.Percent(), c.Used, c.Nominal,
		c.MaxLocksPerTransaction, c.MaxConnections, c.MaxPreparedTransactions, c.Advisory)
	if f.connection.Version >= 190000 {
		what += "; PostgreSQL 19 sizes the table differently, so the percentage is a rough figure"
	}
	if c.Percent() < noticePercent {
		return Finding{Check: check, Level: OK, What: what}
	}
	level := Warning
	if c.Percent() >= fullPercent {
		level = Problem
	}
	return Finding{
		Check: check, Level: level,
		What: what + most(c),
		Why: "when it is full, every session of the server gets \"out of shared memory\", and new ones cannot connect. A " +
			"Locker alone takes at most a quarter of it unless WithMaxHeld says otherwise",
		Do: "find the sessions with many locks (pglock monitor), or enlarge the table, which takes memory and a restart of the server " +
			"(on a managed server without ALTER SYSTEM, in its parameter group)",
		SQL: []string{fmt.Sprintf("ALTER SYSTEM SET max_locks_per_transaction = %d", roomyTable(c))},
	}
}

// roomyTable returns a max_locks_per_transaction, the present one times a power of two, with which the table would not be
// full enough for a finding.
func roomyTable(c monitor.Capacity) int64 {
	size := 2 * c.MaxLocksPerTransaction
	for c.MaxLocksPerTransaction > 0 && 100*c.Used*c.MaxLocksPerTransaction/max(1, c.Nominal) > noticePercent*size {
		size *= 2
	}
	return size
}

// most returns a phrase about the session with the most locks.
func most(c monitor.Capacity) string {
	if len(c.Top) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s has %d", who(c.Top[0].Session), c.Top[0].Locks)
}

func who(s monitor.Session) string {
	if s.Prepared() {
		return fmt.Sprintf("prepared transaction %q", s.GID)
	}
	return fmt.Sprintf("process %d (user %s, application %q)", s.PID, s.User, s.Application)
}

// rollBack says what to do about a prepared transaction.
const rollBack = "if it will not be committed, roll it back in that database, as its owner or a superuser"

// maxListed is how many findings of one kind are listed.
const maxListed = 10

func prepared(f facts) []Finding {
	const check = "prepared-transactions"
	held := map[string]int{}
	sessions := map[string]monitor.Session{}
	for _, lock := range f.snapshot.Locks {
		for _, holder := range lock.Holders {
			if holder.Prepared() {
				held[holder.GID]++
				sessions[holder.GID] = holder.Session
			}
		}
	}
	if len(held) == 0 {
		return []Finding{{Check: check, Level: OK, What: "no prepared transaction holds an advisory lock"}}
	}
	var all []Finding
	for gid, session := range sessions {
		finding := Finding{
			Check: check, Level: Warning,
			What: fmt.Sprintf("prepared transaction %q of %s in database %s holds %s%s", gid, session.User, session.Database,
				count(held[gid], "advisory lock"), age(f.snapshot, session.PreparedAt)),
			Why: "it keeps them until it is ended, even across a restart of the server, and holds back vacuum",
			Do:  rollBack,
		}
		if sql := session.RollbackSQL(); sql != "" {
			finding.SQL = []string{sql}
		}
		all = append(all, finding)
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Compare(a.What, b.What) })
	return atMost(all, "prepared transactions")
}

func age(s *monitor.Snapshot, since *time.Time) string {
	if since == nil {
		return ""
	}
	return fmt.Sprintf(", for %v", s.TakenAt.Sub(*since).Round(time.Second))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// atMost returns the first findings, and a finding with the number of the others.
func atMost(all []Finding, what string) []Finding {
	if len(all) <= maxListed {
		return all
	}
	more := all[maxListed]
	more.What = fmt.Sprintf("there are %d more %s (pglock monitor shows them)", len(all)-maxListed, what)
	more.SQL = nil
	return append(slices.Clone(all[:maxListed]), more)
}
