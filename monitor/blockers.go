package monitor

import (
	"cmp"
	"slices"
)

// blockers makes the edges from a waiter to those that pg_blocking_pids named and the snapshot has: an edge is
// dropped if one of its ends has gone since. pg_blocking_pids names holders in conflicting modes,
// and waiters in conflicting modes that are ahead in the queue; a prepared transaction is a 0, and a process can appear
// several times when parallel workers are involved
// (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION).
func (p parties) blockers(waiter Waiter, holders []Holder, pids []int32) []Blocker {
	hard := map[int32]bool{}
	var prepared []Blocker
	for _, holder := range holders {
		if !holder.Mode.conflictsWith(waiter.Mode) {
			continue
		}
		hard[holder.PID] = true
		if holder.Prepared() {
			prepared = append(prepared, Blocker{GID: holder.GID, Kind: BlockHard})
		}
	}
	edges := []Blocker{}
	for _, pid := range pids {
		switch {
		case pid == 0:
			edges = append(edges, prepared...)
		case pid == waiter.PID || !p.knows(pid):
		case hard[pid]:
			edges = append(edges, Blocker{PID: pid, Kind: BlockHard})
		default:
			edges = append(edges, Blocker{PID: pid, Kind: BlockSoft})
		}
	}
	slices.SortFunc(edges, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
	})
	return slices.Compact(edges)
}
