package pglock

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// group has the entries of a part of the keys, with a mutex of its own: with one for all, goroutines on different keys wait for
// each other.
//
// A request or a hold of several keys belongs to several groups, which are locked in the order of their numbers. What the groups of
// several keys guard is read under one of their mutexes, and written under all.
type group struct {
	mu      sync.Mutex
	entries map[identity]*entry // of the keys that are held, asked for or waited for here
	spare   []*entry            // without use
	counts  counts

	_ [64]byte // keeps the next group out of this one's cache line
}

// counts are a group's part of the counters in [Stats]. Those of something in several groups are in the first one.
type counts struct{ waiting, held, acquired, handedOff, lost atomic.Int64 }

func (l *Locker) countsOf(s groupSet) *counts { return &l.groups[s.first()].counts }

const (
	groupBits = 4
	groups    = 1 << groupBits
	// spareEntries is how many entries a group keeps for later keys, as allocating one under the mutex may take long: it may have to
	// help the garbage collector.
	spareEntries = 1024 / groups
)

// groupSet is a set of groups: those whose bits are set.
type groupSet uint16

const allGroups groupSet = 1<<groups - 1

func (s groupSet) first() int { return bits.TrailingZeros16(uint16(s)) }

// groupOf returns the number of a key's group. Numbers of keys are often small and in a row: the multiplication spreads them
// (Knuth, The Art of Computer Programming, 6.4).
func groupOf(id KeyID) int {
	const golden = 0x9E3779B97F4A7C15
	return int(uint64(id.Number) * golden >> (64 - groupBits))
}

// lock locks groups; unlock unlocks them.
func (l *Locker) lock(s groupSet) {
	for ; s != 0; s &= s - 1 {
		l.groups[s.first()].mu.Lock()
	}
}

func (l *Locker) unlock(s groupSet) {
	for ; s != 0; s &= s - 1 {
		l.groups[s.first()].mu.Unlock()
	}
}

// eachEntry calls do for each entry, under the mutex of its group.
func (l *Locker) eachEntry(do func(*entry)) {
	for i := range l.groups {
		g := &l.groups[i]
		g.mu.Lock()
		for _, e := range g.entries {
			do(e)
		}
		g.mu.Unlock()
	}
}

// addLocked adds an entry.
func (g *group) addLocked(id identity) *entry {
	var e *entry
	if last := len(g.spare) - 1; last >= 0 {
		e, g.spare = g.spare[last], g.spare[:last]
	} else {
		e = &entry{group: g}
	}
	e.id = id
	g.entries[id] = e
	return e
}

// removeLocked removes an entry that is not needed.
func (g *group) removeLocked(e *entry) {
	delete(g.entries, e.id)
	if len(g.spare) < spareEntries {
		g.spare = append(g.spare, e)
	}
}
