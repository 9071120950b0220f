package recording

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// state is what an encoder has written since the last keyframe: sessions and locks by their slots, which are small
// numbers, and texts, which are numbered too.
type state struct {
	queries  bool // statements are written
	meta     string
	texts    map[string]uint64
	textSize int
	sessions slots[sessionID, monitor.Session]
	locks    slots[lockID, lockRow]
}

// sessionID identifies a session within a snapshot.
type sessionID struct {
	pid           int32
	gid, database string
}

type lockID struct {
	database uint32
	key      pglock.KeyID
}

// lockRow is a lock with the slots of its sessions.
type lockRow struct {
	lock    monitor.Lock // without holders and waiters
	holders []holderRow
	waiters []waiterRow
}

type holderRow struct {
	mode    monitor.Mode
	session uint64
}

type waiterRow struct {
	mode      monitor.Mode
	session   uint64
	since     int64 // microseconds since 1970; 0 is none
	estimated bool
	derived   bool // the blockers follow from the holders and waiters
	blockers  []monitor.Blocker
}

func newState(queries bool) state {
	return state{queries: queries, texts: map[string]uint64{}, sessions: newSlots[sessionID, monitor.Session](),
		locks: newSlots[lockID, lockRow]()}
}

// full reports whether a keyframe is due to bound a reader's memory.
func (s *state) full() bool { return s.textSize > maxText/8 || len(s.texts) > maxStrings/8 }

// slots stores values under small numbers, and reuses free numbers.
type slots[K comparable, V any] struct {
	byID   map[K]uint64
	values []V
	ids    []K
	seen   []uint64 // the generation in which a slot was last used; 0 if it is free
	free   []uint64
	now    uint64
}

func newSlots[K comparable, V any]() slots[K, V] { return slots[K, V]{byID: map[K]uint64{}} }

// touch returns the slot of an ID, and whether it is new.
func (s *slots[K, V]) touch(id K) (slot uint64, fresh bool) {
	slot, known := s.byID[id]
	switch {
	case known:
	case len(s.free) > 0:
		slot = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
	default:
		var none V
		slot = uint64(len(s.values))
		s.values, s.ids, s.seen = append(s.values, none), append(s.ids, id), append(s.seen, 0)
	}
	s.byID[id], s.ids[slot], s.seen[slot] = slot, id, s.now
	return slot, !known
}

// sweep frees the slots that have not been touched since the last sweep, and returns them.
func (s *slots[K, V]) sweep() (gone []uint64) {
	for slot, seen := range s.seen {
		if seen != 0 && seen != s.now {
			gone = append(gone, uint64(slot))
			delete(s.byID, s.ids[slot])
			s.seen[slot] = 0
		}
	}
	s.free = append(s.free, gone...)
	return gone
}

// encode returns the body of a snapshot frame: the differences from the last one.
func (s *state) encode(snapshot *monitor.Snapshot, info Info) ([]byte, error) {
	b := &builder{state: s, base: info.At.UnixMicro()}
	if err := b.meta(snapshot, info.Type == TypeKey); err != nil {
		return nil, err
	}
	s.sessions.now++
	s.locks.now++
	changedSessions := b.sessions(snapshot)
	changedLocks := b.locks(snapshot)
	if err := b.check(); err != nil {
		return nil, err
	}
	b.slotList(s.sessions.sweep())
	if err := b.writeSessions(changedSessions); err != nil {
		return nil, err
	}
	b.slotList(s.locks.sweep())
	return b.bytes, b.writeLocks(changedLocks)
}

// builder writes one body.
type builder struct {
	*state
	bytes               []byte
	base                int64
	participants, edges int
}

func (b *builder) uint(n uint64) { b.bytes = binary.AppendUvarint(b.bytes, n) }
func (b *builder) int(n int64)   { b.bytes = binary.AppendVarint(b.bytes, n) }

func (b *builder) raw(text string) {
	b.uint(uint64(len(text)))
	b.bytes = append(b.bytes, text...)
}

// text writes the number of a text, or 0 and the text if it is new.
func (b *builder) text(text string) {
	if n, known := b.texts[text]; known {
		b.uint(n)
		return
	}
	b.uint(0)
	b.raw(text)
	b.texts[text] = uint64(len(b.texts) + 1)
	b.textSize += len(text)
}

// slotList writes ascending slots as differences.
func (b *builder) slotList(slots []uint64) {
	b.uint(uint64(len(slots)))
	last := uint64(0)
	for _, slot := range slots {
		b.uint(slot - last)
		last = slot
	}
}

// meta writes the fields that are not about single locks if they have changed, and always the two numbers that often
// change.
func (b *builder) meta(s *monitor.Snapshot, whole bool) error {
	rest := *s
	rest.Locks, rest.TakenAt = nil, monitor.Snapshot{}.TakenAt
	rest.Capacity.Used, rest.Capacity.Advisory, rest.Capacity.Top = 0, 0, nil
	text, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	if !b.queries {
		if text, err = withoutQueries(text); err != nil {
			return err
		}
	}
	b.int(s.Capacity.Used)
	b.int(s.Capacity.Advisory)
	if string(text) == b.state.meta {
		b.uint(0)
	} else {
		b.uint(1)
		b.state.meta = string(text)
		b.raw(b.state.meta)
	}
	if !whole {
		return nil
	}
	top, err := json.Marshal(s.Capacity.Top)
	if err != nil {
		return err
	}
	b.raw(string(top))
	return nil
}

// changed is a session or lock to write, with a mask of its parts.
type changed struct {
	slot uint64
	mask uint64
}

func bySlot(a, b changed) int { return cmp.Compare(a.slot, b.slot) }

// check returns an error for a snapshot that a reader would refuse.
func (b *builder) check() error {
	if len(b.state.sessions.values) > maxSessions || len(b.state.locks.values) > maxLocks || b.participants > maxParticipants ||
		b.edges > maxDerived {
		return fmt.Errorf("it has too many sessions (%d), locks (%d), holders and waiters (%d) or blockers (%d)",
			len(b.state.sessions.values), len(b.state.locks.values), b.participants, b.edges)
	}
	return nil
}

// locks updates the slots of all locks, and returns those that have changed.
func (b *builder) locks(s *monitor.Snapshot) []changed {
	var all []changed
	for i := range s.Locks {
		lock := &s.Locks[i]
		slot, fresh := b.state.locks.touch(lockID{lock.DatabaseOID, lock.ID()})
		row := &b.state.locks.values[slot]
		var mask uint64
		if fresh {
			*row = lockRow{} // the slot may have had another lock
		}
		if fresh || !sameLock(&row.lock, lock) {
			mask |= lockSelf
			row.lock = *lock
			row.lock.Holders, row.lock.Waiters = nil, nil
		}
		if b.noteHolders(row, lock) || fresh {
			mask |= lockHolders
		}
		if b.noteWaiters(row, lock, mask&lockHolders != 0) || fresh && len(lock.Waiters) > 0 {
			mask |= lockWaiters
		}
		if mask != 0 {
			all = append(all, changed{slot, mask})
		}
	}
	slices.SortFunc(all, bySlot)
	return all
}

// sameLock reports whether the names and other labels of a lock are the same.
func sameLock(a, b *monitor.Lock) bool {
	return a.Key == b.Key && a.Kind == b.Kind && a.Used == b.Used && a.Limit == b.Limit && a.Database == b.Database &&
		slices.Equal(a.Names, b.Names) && slices.Equal(a.Guesses, b.Guesses)
}

// noteHolders updates the holders of a lock, and reports whether they have changed.
func (b *builder) noteHolders(row *lockRow, lock *monitor.Lock) bool {
	b.participants += len(lock.Holders) + len(lock.Waiters)
	same := len(row.holders) == len(lock.Holders)
	for i := range lock.Holders {
		h := holderRow{lock.Holders[i].Mode, b.state.sessions.byID[idOf(&lock.Holders[i].Session)]}
		same = same && row.holders[i] == h
		if !same {
			row.holders = append(row.holders[:min(i, len(row.holders))], h)
		}
	}
	row.holders = row.holders[:len(lock.Holders)]
	return !same
}

// noteWaiters updates the waiters of a lock. They count as changed if the holders have changed, since their blockers
// follow from the holders.
func (b *builder) noteWaiters(row *lockRow, lock *monitor.Lock, holdersChanged bool) bool {
	same := len(row.waiters) == len(lock.Waiters) && (!holdersChanged || len(lock.Waiters) == 0)
	for i := range lock.Waiters {
		waiter := &lock.Waiters[i]
		w := waiterRow{mode: waiter.Mode, session: b.state.sessions.byID[idOf(&waiter.Session)],
			estimated: waiter.WaitingEstimated, blockers: waiter.BlockedBy}
		if waiter.WaitingSince != nil {
			w.since = waiter.WaitingSince.UnixMicro()
		}
		b.edges += len(w.blockers)
		same = same && row.waiters[i].equal(w)
		if !same {
			row.waiters = append(row.waiters[:min(i, len(row.waiters))], w)
		}
	}
	row.waiters = row.waiters[:len(lock.Waiters)]
	if !same {
		for i := range row.waiters {
			derived, ok := derivedBlockers(lock.Holders, lock.Waiters, i)
			row.waiters[i].derived = ok && slices.Equal(derived, row.waiters[i].blockers)
		}
	}
	return !same
}

func (w waiterRow) equal(other waiterRow) bool {
	return w.mode == other.mode && w.session == other.session && w.since == other.since &&
		w.estimated == other.estimated && slices.Equal(w.blockers, other.blockers)
}

func idOf(s *monitor.Session) sessionID { return sessionID{s.PID, s.GID, s.Database} }

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

// equalValues reports whether two values are equal. A nil list differs from an empty one.
func equalValues(a, b any) bool { return reflect.DeepEqual(a, b) }
