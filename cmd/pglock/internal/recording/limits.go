package recording

import (
	"cmp"
	"runtime/debug"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Limits that bound what reading costs, whatever a file contains. A writer keeps to those of lines and elements.
const (
	maxLine     = 1 << 20   // bytes of a line
	maxElements = 1 << 14   // commas and opening brackets of a line, outside of its texts
	maxDepth    = 8         // of brackets in a line
	maxQuery    = 128 << 10 // bytes of a statement; escapes make them six times as long
	maxBlockers = 3000      // of a waiter, if they are recorded

	// elementsPerByte is how many elements (locks, holders and waiters) the snapshots read from a file may have together,
	// for each byte of it. A recorder writes a keyframe in time.
	elementsPerByte = 6
	// freeElements may be read in any case.
	freeElements = 1 << 17
)

// What parts of a snapshot cost in memory, in bytes: in two snapshots, the decoder, a journal and its events.
const (
	sessionCost = 1200
	lockCost    = 1200
	holderCost  = 1200
	waiterCost  = 3600
	blockerCost = 100
	topCost     = 100_000 // there are ten
	genericCost = 40      // for each byte of a line about a cycle or about a wait for another lock
)

// The most that the snapshots at one time may cost. A server with 10,000 locks is below maxCost.
const (
	maxCost      = 28 << 20
	maxLargeCost = 4 << 30
	maxSessions  = 10_000
)

// checkLine refuses lines that would take much more memory when decoded.
func checkLine(line []byte) error {
	elements, depth, quoted := 0, 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			elements++
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',':
			elements++
		}
		if elements > maxElements || depth > maxDepth {
			return corrupt("a line with more than %d elements, or nested deeper than %d", maxElements, maxDepth)
		}
	}
	return nil
}

// derivingCosts is the work of finding the blockers of a waiter, in elements.
func derivingCosts(lock *monitor.Lock, i int) int { return (len(lock.Holders) + i) / 16 }

// derivedBlockers returns the blockers of a waiter that follow from the holders and from the waiters ahead of it, in the
// two modes of advisory locks.
func derivedBlockers(holders []monitor.Holder, waiters []monitor.Waiter, i int) (blockers []monitor.Blocker, ok bool) {
	simple := func(m monitor.Mode) bool { return m == monitor.ModeShared || m == monitor.ModeExclusive }
	mode, pid := waiters[i].Mode, waiters[i].PID
	if !simple(mode) {
		return nil, false
	}
	add := func(other monitor.Mode, b monitor.Blocker) {
		ok = ok && simple(other)
		if b.PID != pid && (mode == monitor.ModeExclusive || other == monitor.ModeExclusive) {
			blockers = append(blockers, b)
		}
	}
	ok = true
	held := map[int32]bool{}
	for k := range holders {
		add(holders[k].Mode, monitor.Blocker{PID: holders[k].PID, GID: holders[k].GID, Kind: monitor.BlockHard})
		held[holders[k].PID] = true
	}
	for k := range waiters[:i] {
		if !held[waiters[k].PID] {
			add(waiters[k].Mode, monitor.Blocker{PID: waiters[k].PID, Kind: monitor.BlockSoft})
		}
	}
	slices.SortFunc(blockers, func(a, b monitor.Blocker) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
	})
	return slices.Compact(blockers), ok
}

// memory is how much memory a program uses that reads a recording from a stranger. maxCost bounds what is in use at a
// time, and this what waits for the garbage collector.
const memory = 40 << 20

// BoundMemory sets the limits of the garbage collector for a program that reads a recording from a stranger.
func BoundMemory() {
	if debug.SetMemoryLimit(-1) > memory {
		debug.SetMemoryLimit(memory)
		debug.SetGCPercent(-1) // not before
	}
}
