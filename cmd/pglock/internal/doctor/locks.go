package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
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

func cycles(f facts) []Finding {
	const check = "deadlocks"
	if len(f.snapshot.Cycles) == 0 {
		return []Finding{{Check: check, Level: OK, What: "no sessions block each other"}}
	}
	var all []Finding
	for _, cycle := range f.snapshot.Cycles {
		var steps []string
		for _, step := range cycle.Steps {
			steps = append(steps, fmt.Sprintf("%d waits for %s behind %d", step.PID, step.Key, step.BlockedBy))
		}
		finding := Finding{
			Check: check, Level: Problem,
			What: "deadlock: " + strings.Join(steps, ", ") + age(f.snapshot, cycle.Since),
			Why: fmt.Sprintf("none of them can continue by itself; the server ends one of the waits after deadlock_timeout (%s)",
				f.settings[deadlockTimeout].Shown),
			Do: fmt.Sprintf("end one of the waits: %s; and take several keys in the same order, as LockAll and LockAllTx do",
				f.signal(monitor.SignalCancel, cycle.Steps[0].PID)),
		}
		if cycle.Certain && f.outlived(cycle) {
			finding.Why = fmt.Sprintf("none of them can continue by itself, and it has outlived deadlock_timeout (%s): the server "+
				"checks once in each wait, so it does not end this one", f.settings[deadlockTimeout].Shown)
		}
		if !cycle.Certain {
			finding.Level = Warning
			finding.What = "possible " + finding.What
			finding.Why = "it involves several sessions of a pglock process: if one task of that process holds the one " +
				"lock and waits for the other, none can continue, and the server does not see it"
			finding.Do += ", or bound the wait with MaxWait"
		}
		all = append(all, finding)
	}
	return atMost(all, "circles")
}

// outlived reports whether a deadlock is clearly older than the time after which the server would have ended it.
func (f facts) outlived(cycle monitor.Cycle) bool {
	const spare = 5 * time.Second
	timeout, err := strconv.Atoi(f.settings[deadlockTimeout].Setting) // in milliseconds
	return err == nil && cycle.Since != nil &&
		f.snapshot.TakenAt.Sub(*cycle.Since) > time.Duration(timeout)*time.Millisecond+spare
}

// waits reports a lock once, however many sessions wait for it, since the remedy concerns its holder. Waits for other
// locks than advisory ones are left out behind a session that is already at the root of a reported wait.
func waits(f facts, long time.Duration) []Finding {
	type lockID struct {
		advisory        *monitor.Lock
		other, database string
	}
	byLock := map[lockID][]monitor.Wait{}
	var ids []lockID // in the order of the snapshot: advisory locks first
	roots := map[*monitor.Node]bool{}
	tree := f.snapshot.Tree()
	for wait := range f.snapshot.Waits() {
		if wait.Expected() || wait.WaitingSince == nil || f.snapshot.TakenAt.Sub(*wait.WaitingSince) <= long {
			continue
		}
		id, root := lockID{advisory: wait.Lock}, rootOf(tree.Node(wait.ID()))
		if wait.Other != nil {
			if id.other, id.database = wait.Other.String(), wait.Database; roots[root] && byLock[id] == nil {
				continue
			}
		}
		roots[root] = true
		if byLock[id] == nil {
			ids = append(ids, id)
		}
		byLock[id] = append(byLock[id], wait)
	}
	if len(ids) == 0 {
		return []Finding{{Check: "waits", Level: OK, What: fmt.Sprintf("no session has waited longer than %v", long)}}
	}
	var all []Finding
	for _, id := range ids {
		all = append(all, f.longWait(byLock[id]))
	}
	return atMost(all, "locks with long waits")
}

func rootOf(n *monitor.Node) *monitor.Node {
	for n != nil && n.Parent() != nil {
		n = n.Parent()
	}
	return n
}

func (f facts) longWait(waits []monitor.Wait) Finding {
	s := f.snapshot
	first := slices.MinFunc(waits, func(a, b monitor.Wait) int { return a.WaitingSince.Compare(*b.WaitingSince) })
	finding := Finding{
		Check: "waits", Level: Warning,
		What: fmt.Sprintf("%s has waited %s%v for %s%s", who(first.Session), atMostPrefix(*first.Waiter),
			s.TakenAt.Sub(*first.WaitingSince).Round(time.Second), view.InDatabase(first), behind(*first.Waiter)),
	}
	finding.Why, finding.Do = f.remedy(*first.Waiter)
	switch others := len(waits) - 1; {
	case others == 1:
		finding.What += "; so has 1 other, not as long"
	case others > 1:
		finding.What += fmt.Sprintf("; so have %d others, not as long", others)
	}
	if first.Lock != nil {
		if sql := rollbacks(*first.Lock); len(sql) > 0 {
			finding.Why, finding.Do, finding.SQL = "a prepared transaction keeps the lock until it is ended", rollBack, sql
		}
	}
	return finding
}

// rollbacks returns the statements that end the prepared transactions that hold a lock.
func rollbacks(lock monitor.Lock) []string {
	var all []string
	for _, holder := range lock.Holders {
		if sql := holder.RollbackSQL(); sql != "" {
			all = append(all, sql)
		}
	}
	return all
}

// atMostPrefix returns "at most " if the server does not report when a wait began, so that its length is an upper bound.
func atMostPrefix(w monitor.Waiter) string {
	if w.WaitingEstimated {
		return "at most "
	}
	return ""
}

func behind(w monitor.Waiter) string {
	var holders []string
	for _, blocker := range w.BlockedBy {
		switch {
		case blocker.Kind != monitor.BlockHard:
		case blocker.PID != 0:
			holders = append(holders, fmt.Sprint(blocker.PID))
		case blocker.GID != "":
			holders = append(holders, fmt.Sprintf("prepared transaction %q", blocker.GID))
		}
	}
	if len(holders) == 0 {
		return ""
	}
	return ", which " + strings.Join(holders, ", ") + " holds"
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
