package monitor

import (
	"encoding/json"
	"slices"
)

// Blockers are the sessions that block a waiter. In memory they are complete. The JSON form has at most 16: in a queue
// of n waiters each can have all that are ahead of it, which are about n²/2 in all.
type Blockers []Blocker

// maxBlockers is how many blockers of a waiter the JSON form has, and how many of a lock in a row are looked for.
const maxBlockers = 16

// MarshalJSON returns the shorter JSON form.
func (b Blockers) MarshalJSON() ([]byte, error) {
	return json.Marshal([]Blocker(b[:min(len(b), maxBlockers)]))
}

// blockers returns the blockers of a waiter that pg_blocking_pids named and that the snapshot has, and how many stand
// ahead in the queue without holding the lock. Where a holder is in the way, only such are blockers: those ahead wait
// for it too, and one that left would let nothing through. pg_blocking_pids names holders in conflicting modes, and
// waiters in conflicting modes that are ahead in the queue. It returns 0 for a prepared transaction, and can return a
// process several times if there are parallel workers
// (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION). It names none for processes
// that are no sessions, such as the one that replays on a standby: then it is the holders in conflicting modes. pids is
// nil if it was not asked, since the waiter did not wait any more.
func (p parties) blockers(waiter Waiter, holders []Holder, pids []int32) (near Blockers, ahead int) {
	holds := map[int32]bool{}
	all, prepared := []Blocker{}, []Blocker{}
	for _, holder := range holders {
		if !conflict(holder.Mode, waiter.Mode) || holder.ID() == waiter.ID() {
			continue
		}
		holds[holder.PID] = true
		all = append(all, Blocker{PID: holder.PID, GID: holder.GID, Kind: blockHard})
		if holder.Prepared() {
			prepared = append(prepared, all[len(all)-1])
		}
	}
	hard, soft := []Blocker{}, []Blocker{}
	if pids != nil && len(pids) == 0 {
		hard = all
	}
	for _, pid := range pids {
		switch {
		case pid == 0:
			hard = append(hard, prepared...)
		case pid == waiter.PID || !p.knows(pid):
		case holds[pid]:
			hard = append(hard, Blocker{PID: pid, Kind: blockHard})
		default:
			soft = append(soft, Blocker{PID: pid, Kind: blockSoft})
		}
	}
	hard, soft = distinct(hard), distinct(soft)
	if len(hard) > 0 {
		return hard, len(soft)
	}
	return soft, len(soft)
}

// distinct sorts blockers by process ID, and leaves each once.
func distinct(blockers []Blocker) []Blocker {
	slices.SortFunc(blockers, func(a, b Blocker) int { return a.ID().compare(b.ID()) })
	return slices.Compact(blockers)
}
