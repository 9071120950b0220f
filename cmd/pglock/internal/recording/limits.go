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

	// elementsPerByte is how many elements the snapshots read from a file may have together, for each byte of it. A lock is
	// one, so is a holder, and a waiter is waiterElements, since a journal and a report have more to do with it. An element
	// takes about 0.3 µs, so a file of a stranger takes some 2 s per MiB. A recorder writes a keyframe in time.
	elementsPerByte = 5
	waiterElements  = 3
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

// derivingCosts is the work of derivedBlockers, in elements.
func derivingCosts(holders, waiters int) int { return waiters * (holders + waiters/2) / 4 }

// derivedBlockers returns for each waiter the blockers that follow from the holders and from the waiters ahead of it, in
// the two modes of advisory locks. They are nil for a waiter about which nothing follows.
func derivedBlockers(holders []monitor.Holder, waiters []monitor.Waiter) [][]monitor.Blocker {
	ahead := make([]party, 0, len(holders)+len(waiters))
	held := make(map[int32]bool, len(holders))
	simple := true // the modes of all that are ahead
	for i := range holders {
		h := &holders[i]
		ahead = append(ahead, party{monitor.Blocker{PID: h.PID, GID: h.GID, Kind: monitor.BlockHard}, h.Mode})
		held[h.PID] = true
		simple = simple && isSimple(h.Mode)
	}
	slices.SortFunc(ahead, compareParties)
	derived := make([][]monitor.Blocker, len(waiters))
	var found []monitor.Blocker
	for i := range waiters {
		w := &waiters[i]
		if simple = simple && isSimple(w.Mode); !simple {
			break
		}
		found = appendBlockers(found[:0], ahead, w)
		derived[i] = append(make([]monitor.Blocker, 0, len(found)), found...)
		if !held[w.PID] {
			p := party{monitor.Blocker{PID: w.PID, Kind: monitor.BlockSoft}, w.Mode}
			at, _ := slices.BinarySearchFunc(ahead, p, compareParties)
			ahead = slices.Insert(ahead, at, p)
		}
	}
	return derived
}

// party is a holder or a waiter.
type party struct {
	monitor.Blocker
	mode monitor.Mode
}

func isSimple(m monitor.Mode) bool { return m == monitor.ModeShared || m == monitor.ModeExclusive }

func compareParties(a, b party) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
}

// appendBlockers appends those that the waiter waits for, each once.
func appendBlockers(found []monitor.Blocker, ahead []party, w *monitor.Waiter) []monitor.Blocker {
	for i := range ahead {
		p := &ahead[i]
		conflicts := p.PID != w.PID && (w.Mode == monitor.ModeExclusive || p.mode == monitor.ModeExclusive)
		if n := len(found); conflicts && (n == 0 || found[n-1] != p.Blocker) {
			found = append(found, p.Blocker)
		}
	}
	return found
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
