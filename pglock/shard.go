package pglock

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// shard has the entries of some of the keys, so that goroutines with different keys rarely contend.
//
// A request or hold of several keys may be in several shards. It is counted in its home, the shard of its first key. Several
// shards are locked in the order of their indexes.
type shard struct {
	index uint8

	mu      sync.Mutex
	closed  bool
	entries [2]map[int64]*entry   // keys that are held, asked for or waited for here, by space
	spare   []*entry              // empty ones
	asking  map[*request]struct{} // requests that wait for the backend, to be cancelled by Close
	inUse   int                   // keys held, asked for or waited for
	counts  Stats

	_ [64]byte // keeps the next shard out of this one's cache line
}

const (
	shardBits = 5
	shards    = 1 << shardBits
	maxSpare  = 1024 / shards
)

// shardSet is a set of shard indexes.
type shardSet uint32

func (s shardSet) with(index uint8) shardSet { return s | 1<<index }

func newShards() *[shards]shard {
	all := new([shards]shard)
	for i := range all {
		all[i].index = uint8(i)
		all[i].entries = [2]map[int64]*entry{{}, {}}
		all[i].asking = map[*request]struct{}{}
	}
	return all
}

// shardOf returns the shard of a key. Raw keys are often small numbers in a row: the multiplication spreads them
// (Knuth, The Art of Computer Programming, 6.4).
func (l *Locker) shardOf(id KeyID) *shard {
	const golden = 0x9E3779B97F4A7C15
	return &l.shards[uint64(id.Number)*golden>>(64-shardBits)]
}

// lock locks a set of shards; unlock unlocks them.
func (l *Locker) lock(s shardSet) {
	for ; s != 0; s &= s - 1 {
		l.shards[bits.TrailingZeros32(uint32(s))].mu.Lock()
	}
}

func (l *Locker) unlock(s shardSet) {
	for ; s != 0; s &= s - 1 {
		l.shards[bits.TrailingZeros32(uint32(s))].mu.Unlock()
	}
}

// entryLocked returns the entry of a key, and makes it if there is none.
func (s *shard) entryLocked(id identity) *entry {
	entries := s.entriesLikeLocked(id)
	first := entries[id.Number]
	for e := first; e != nil; e = e.next {
		if e.id.name == id.name {
			return e
		}
	}
	e := s.newEntryLocked()
	e.id, e.next = id, first
	entries[id.Number] = e
	return e
}

// entriesLikeLocked returns the entries of keys of id's space.
func (s *shard) entriesLikeLocked(id identity) map[int64]*entry {
	return s.entries[id.Space-driver.SpaceBigint]
}

func (s *shard) newEntryLocked() *entry {
	if n := len(s.spare); n > 0 {
		e := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return e
	}
	return &entry{shard: s}
}

// forgetLocked removes an entry that is not needed, and keeps it for the next key.
func (s *shard) forgetLocked(e *entry) {
	s.unlinkLocked(e)
	if len(s.spare) < maxSpare {
		*e = entry{shard: s, queue: e.queue[:0], holds: e.holds[:0]}
		s.spare = append(s.spare, e)
	}
}

// unlinkLocked removes e from the entries of its key's number.
func (s *shard) unlinkLocked(e *entry) {
	entries := s.entriesLikeLocked(e.id)
	first := entries[e.id.Number]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		entries[e.id.Number] = e.next
	default:
		delete(entries, e.id.Number)
	}
}

// registerLocked counts r at home, or fails if that exceeds a bound.
func (l *Locker) registerLocked(home *shard, r *request) error {
	if home.closed {
		return ErrClosed
	}
	home.inUse += len(r.keys)
	home.counts.Waiting++
	return nil
}

// unregisterLocked undoes register for a request that failed.
func (l *Locker) unregisterLocked(home *shard, r *request) {
	home.counts.Waiting--
	l.discountLocked(home, len(r.keys))
}

// discountLocked subtracts keys of home that are not in use any more.
func (l *Locker) discountLocked(home *shard, keys int) {
	home.inUse -= keys
	if home.closed && home.inUse == 0 {
		l.shardDrained()
	}
}

// shardDrained is called once for each shard, when it is closed and none of its keys is in use.
func (l *Locker) shardDrained() {
	if l.undrained.Add(-1) == 0 {
		close(l.drained)
	}
}

// locksLocked returns all Locks whose home this is.
func (s *shard) locksLocked() (all []*Lock) {
	for _, entries := range s.entries {
		for _, first := range entries {
			for e := first; e != nil; e = e.next {
				for _, h := range e.holds {
					all = append(all, h.locks...)
				}
			}
		}
	}
	return all
}

// identity identifies a lock: the number of its key and, if the backend distinguishes locks by their names
// ([driver.NamedLocks]), the name.
type identity struct {
	KeyID
	name string
}

func (l *Locker) identityOf(key driver.Key) identity {
	if l.byName {
		return identity{key.KeyID, key.Name}
	}
	return identity{KeyID: key.KeyID}
}

// inOrder returns the keys of the locks, each once, in the order in which every process takes them.
func (l *Locker) inOrder(keys []Key) []Key {
	if !l.byName {
		return inOrder(keys)
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return a.k.Compare(b.k) })
	return slices.CompactFunc(keys, func(a, b Key) bool { return a.k.Compare(b.k) == 0 })
}
