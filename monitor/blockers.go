package monitor

import (
	"cmp"
	"slices"
)

// blockers returns the blockers of a waiter that pg_blocking_pids named and that the snapshot has. pg_blocking_pids
// names holders in conflicting modes, and waiters in conflicting modes that are ahead in the queue. It returns 0 for a
// prepared transaction, and can return a process several times if there are parallel workers
// (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION).
func (p parties) blockers(waiter Waiter, holders []Holder, pids []int32) Blockers {
	hard := map[int32]bool{}
	var prepared []Blocker
	for _, holder := range holders {
		if !conflict(holder.Mode, waiter.Mode) {
			continue
		}
		hard[holder.PID] = true
		if holder.Prepared() {
			prepared = append(prepared, Blocker{GID: holder.GID, Kind: blockHard})
		}
	}
	edges := []Blocker{}
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
