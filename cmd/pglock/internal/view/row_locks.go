package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// ShowsRow reports whether the filter shows a lock in a row. All of them are in the connected database.
func (f Filter) ShowsRow(s *monitor.Snapshot, lock monitor.RowLock) bool {
	switch {
	case f.Waiting && len(lock.Waiters) == 0, !f.inDatabases(s.Database):
		return false
	case len(f.Keys) > 0 && !slices.ContainsFunc(f.Keys, func(key pglock.Key) bool { return key.ID() == lock.ID() }):
		return false
	case len(f.Users)+len(f.Applications) == 0:
		return true
	}
	return slices.ContainsFunc(lock.Holders, func(h monitor.RowHolder) bool { return f.showsSession(h.User, h.Application) }) ||
		slices.ContainsFunc(lock.Waiters, func(w monitor.RowWaiter) bool { return f.showsSession(w.User, w.Application) })
}

// rowLocks formats some of the locks in rows, with the totals of all that are shown.
func (p *page) rowLocks(locks []monitor.RowLock) (lines []string) {
	s := p.shown
	if len(s.RowLocks) == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf("locks in rows of database %s: %s", Printable(s.Database), rowCounts(s)))
	for _, lock := range locks {
		heading := Printable(lock.Label())
		if lock.Name != "" {
			heading += fmt.Sprintf("  @%d", lock.Number)
		}
		lines = append(lines, heading)
		for _, h := range lock.Holders {
			lines = append(lines, fmt.Sprintf("  holds  %s  %s  since %s, %s, generation %d",
				Short(string(h.Mode)), Process(h.RowProcess), Age(s.TakenAt.Sub(h.HeldSince)), Lease(h.RowProcess, s.TakenAt), h.Generation))
		}
		for _, w := range lock.Waiters {
			below, hidden := p.rowFolds.of(monitor.SessionID{Holder: w.Holder}, lock.Label(), s.TakenAt)
			if hidden {
				continue
			}
			lines = append(lines, fmt.Sprintf("  waits  %s  %s  for %s, %s",
				Short(string(w.Mode)), Process(w.RowProcess), Age(s.TakenAt.Sub(w.WaitingSince)), Lease(w.RowProcess, s.TakenAt)))
			if below != "" {
				lines = append(lines, "         "+below)
			}
		}
	}
	return lines
}

// rowsByUrgency sorts the locks in rows: the longest waits first, and then those without waiters.
func rowsByUrgency(s *monitor.Snapshot) []monitor.RowLock {
	locks := slices.Clone(s.RowLocks)
	slices.SortStableFunc(locks, func(a, b monitor.RowLock) int { return cmp.Compare(longestOfRow(s, b), longestOfRow(s, a)) })
	return locks
}

// rowCounts describes the numbers of locks in rows, holders and waiters.
func rowCounts(s *monitor.Snapshot) string {
	holders, waiters := RowParties(s)
	return fmt.Sprintf("%s, %s, %s", count(len(s.RowLocks), "key"), count(holders, "holder"), count(waiters, "waiter"))
}

// RowParties counts the holders of locks in rows, and the waiters for them.
func RowParties(s *monitor.Snapshot) (holders, waiters int) {
	for _, lock := range s.RowLocks {
		holders, waiters = holders+len(lock.Holders), waiters+len(lock.Waiters)
	}
	return holders, waiters
}

// Process names a process that uses locks in rows: what it calls itself, where it runs, and as whom.
func Process(p monitor.RowProcess) string {
	text := p.Holder
	if p.Application != "" {
		text += " " + Printable(p.Application)
	}
	switch {
	case slices.Contains(p.Hidden, "user"):
		return text + " (unknown)"
	case p.Host != "":
		text += fmt.Sprintf(" on %s, process %d", Printable(p.Host), p.PID)
	case slices.Contains(p.Hidden, "host"):
		text += " on " + hidden
	}
	return text + ", role " + Printable(p.User)
}

// Lease says how long the lease of a process lasts.
func Lease(p monitor.RowProcess, at time.Time) string {
	left, known := p.LeaseLeft(at)
	switch {
	case !known:
		return "lease unknown"
	case left <= 0:
		return "lease over for " + Age(-left)
	}
	return "lease left " + Age(left)
}

// longestOfRow returns the longest wait for a lock in a row, or a negative duration without waiters.
func longestOfRow(s *monitor.Snapshot, lock monitor.RowLock) time.Duration {
	wait := time.Duration(-1)
	for _, w := range lock.Waiters {
		wait = max(wait, s.TakenAt.Sub(w.WaitingSince), 0)
	}
	return wait
}

// longestRowWait returns the longest wait for a lock in a row that is not expected, and what it is. The text is empty if
// there is none.
func longestRowWait(s *monitor.Snapshot) (lasted time.Duration, text string) {
	lasted = -1
	for _, lock := range s.RowLocks {
		if lock.Expected() {
			continue
		}
		for _, w := range lock.Waiters {
			if waited := max(s.TakenAt.Sub(w.WaitingSince), 0); waited > lasted {
				lasted = waited
				text = fmt.Sprintf("%s has waited %s for %s in a row of database %s", Process(w.RowProcess), Age(waited), lock.Label(), s.Database)
				if i := slices.IndexFunc(lock.Holders, func(h monitor.RowHolder) bool { return slices.Contains(w.BlockedBy, h.Holder) }); i >= 0 {
					text += " behind " + Process(lock.Holders[i].RowProcess)
				}
			}
		}
	}
	return max(lasted, 0), text
}
