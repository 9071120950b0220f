package monitor

import (
	"cmp"
	"slices"
)

// blockers returns the blockers of a waiter that pg_blocking_pids named and that the snapshot has. pg_blocking_pids
// names holders in conflicting modes, and waiters in conflicting modes that are ahead in the queue. It returns 0 for a
// prepared transaction, and can return a process several times if there are parallel workers
// (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION). It names none for processes that are no
// sessions, such as the one that replays on a standby: then it is the holders in conflicting modes. pids is nil if it was not
// asked, since the waiter did not wait any more.
func (p parties) blockers(waiter Waiter, holders []Holder, pids []int32) Blockers {
	hard := map[int32]bool{}
	all, prepared := []Blocker{}, []Blocker{}
	for _, holder := range holders {
		if !conflict(holder.Mode, waiter.Mode) || holder.ID() == waiter.ID() {
			continue
		}
		hard[holder.PID] = true
		all = append(all, Blocker{PID: holder.PID, GID: holder.GID, Kind: blockHard})
		if holder.Prepared() {
			prepared = append(prepared, all[len(all)-1])
		}
	}
	edges := []Blocker{}
	if pids != nil && len(pids) == 0 {
		edges = all
	}
	for _, pid := range pids {
		switch {
		case pid == 0:
			edges = append(edges, prepared...)
		case pid == waiter.PID || !p.knows(pid):
		case hard[pid]:
			edges = append(edges, Blocker{PID: pid, Kind: blockHard})
		default:
			edges = append(edges, Blocker{PID: pid, Kind: blockSoft})
		}
	}
	slices.SortFunc(edges, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
	})
	return slices.Compact(edges)
}
