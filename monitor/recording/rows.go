package recording

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The parts of a lock that are written.
const (
	lockSelf = 1 << iota
	lockHolders
	lockWaiters
)

// How a lock is written: by the fields that determine the rest, or as JSON.
const (
	lockJSON = iota
	lockName
	lockBigint
	lockPair
)

// The parts of a session that are written. All but the first change often.
const (
	sessionSelf = 1 << iota
	sessionState
	sessionStateSince
	sessionQuery
	sessionTransaction
	sessionEvent
)

// sessions updates the slots of all sessions, and returns those that have changed.
func (b *builder) sessions(s *monitor.Snapshot) []changed {
	var all []changed
	note := func(seen *monitor.Session) {
		id := idOf(seen)
		if slot, known := b.state.sessions.byID[id]; known && b.state.sessions.seen[slot] == b.state.sessions.now {
			return
		}
		session := *seen
		if !b.state.queries {
			withoutQuery(&session)
		}
		slot, fresh := b.state.sessions.touch(id)
		old := &b.state.sessions.values[slot]
		mask := uint64(sessionSelf)
		if !fresh {
			mask = differs(old, &session)
		}
		if mask != 0 {
			*old = session
			all = append(all, changed{slot, mask})
		}
	}
	for i := range s.Locks {
		for k := range s.Locks[i].Holders {
			note(&s.Locks[i].Holders[k].Session)
		}
		for k := range s.Locks[i].Waiters {
			note(&s.Locks[i].Waiters[k].Session)
		}
	}
	slices.SortFunc(all, bySlot)
	return all
}

// differs returns the parts of a session that have changed. Growing ages are not changes.
func differs(old, now *monitor.Session) (mask uint64) {
	a, b := withoutVolatile(old), withoutVolatile(now)
	if (a.XminAge == nil) == (b.XminAge == nil) && (a.XIDAge == nil) == (b.XIDAge == nil) {
		a.XminAge, a.XIDAge = b.XminAge, b.XIDAge
	}
	if !equalValues(a, b) {
		return sessionSelf
	}
	for _, field := range []struct {
		bit  uint64
		same bool
	}{
		{sessionState, old.State == now.State},
		{sessionStateSince, micros(old.StateSince) == micros(now.StateSince)},
		{sessionQuery, old.Query == now.Query},
		{sessionTransaction, micros(old.TransactionSince) == micros(now.TransactionSince)},
		{sessionEvent, old.WaitEventType == now.WaitEventType && old.WaitEvent == now.WaitEvent},
	} {
		if !field.same {
			mask |= field.bit
		}
	}
	return mask
}

// withoutVolatile returns a session without the fields that change often.
func withoutVolatile(s *monitor.Session) monitor.Session {
	cold := *s
	cold.State, cold.StateSince, cold.Query, cold.TransactionSince = "", nil, "", nil
	cold.WaitEventType, cold.WaitEvent = "", ""
	return cold
}

// micros returns a time in microseconds since 1970, or 0 for nil.
func micros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// time writes a time relative to the snapshot, or that there is none.
func (b *builder) time(micros int64) {
	if micros == 0 {
		b.uint(0)
		return
	}
	b.uint(1)
	b.int(b.base - micros)
}

func (b *builder) writeSessions(all []changed) error {
	b.uint(uint64(len(all)))
	last := uint64(0)
	for _, c := range all {
		b.uint(c.slot - last)
		last = c.slot
		session := &b.state.sessions.values[c.slot]
		mask := c.mask
		if mask&sessionSelf != 0 {
			mask = sessionSelf | sessionState | sessionStateSince | sessionQuery | sessionTransaction | sessionEvent
		}
		b.uint(mask)
		if err := b.writeSession(session, mask); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) writeSession(s *monitor.Session, mask uint64) error {
	if mask&sessionSelf != 0 {
		text, err := json.Marshal(withoutVolatile(s))
		if err != nil {
			return err
		}
		b.raw(string(text))
	}
	if mask&sessionState != 0 {
		b.text(s.State)
	}
	if mask&sessionStateSince != 0 {
		b.time(micros(s.StateSince))
	}
	if mask&sessionQuery != 0 {
		b.text(s.Query)
	}
	if mask&sessionTransaction != 0 {
		b.time(micros(s.TransactionSince))
	}
	if mask&sessionEvent != 0 {
		b.text(s.WaitEventType)
		b.text(s.WaitEvent)
	}
	return nil
}

func (b *builder) writeLocks(all []changed) error {
	b.uint(uint64(len(all)))
	last := uint64(0)
	for _, c := range all {
		b.uint(c.slot - last)
		last = c.slot
		row := &b.state.locks.values[c.slot]
		b.uint(c.mask)
		if c.mask&lockSelf != 0 {
			if err := b.writeLock(&row.lock); err != nil {
				return err
			}
		}
		if c.mask&lockHolders != 0 {
			b.uint(uint64(len(row.holders)))
			for _, h := range row.holders {
				b.text(string(h.mode))
				b.uint(h.session)
			}
		}
		if c.mask&lockWaiters != 0 {
			b.writeWaiters(row.waiters)
		}
	}
	return nil
}

func (b *builder) writeLock(lock *monitor.Lock) error {
	how := lockJSON
	for kind := lockName; kind <= lockPair; kind++ {
		made, err := makeLock(kind, lock.Names, lock.Number, lock.DatabaseOID, lock.Database)
		if err == nil && equalValues(made, *lock) {
			how = kind
			break
		}
	}
	b.uint(uint64(how))
	switch how {
	case lockJSON:
		text, err := json.Marshal(lock)
		if err != nil {
			return err
		}
		b.raw(string(text))
		return nil
	case lockName:
		b.raw(lock.Names[0])
	default:
		b.int(lock.Number)
	}
	b.uint(uint64(lock.DatabaseOID))
	b.text(lock.Database)
	return nil
}

// makeLock returns a plain lock from the fields that determine the others.
func makeLock(how int, names []string, number int64, oid uint32, database string) (monitor.Lock, error) {
	lock := monitor.Lock{Names: []string{}, Guesses: []monitor.Guess{}, Kind: monitor.KindLock, Space: monitor.SpaceBigint,
		Objsubid: int16(driver.SpaceBigint), Number: number, DatabaseOID: oid, Database: database}
	switch how {
	case lockName:
		if len(names) != 1 {
			return lock, corrupt("a key with %d names", len(names))
		}
		key := pglock.NewKey(names[0])
		lock.Names, lock.Number, lock.Key = []string{names[0]}, key.Int64(), key.String()
	case lockBigint:
		lock.Key = pglock.Int64Key(number).String()
	case lockPair:
		lock.Space, lock.Objsubid = monitor.SpacePair, int16(driver.SpacePair)
		lock.Key = pglock.PairKey(int32(number>>32), int32(number)).String()
	default:
		return lock, corrupt("a lock of kind %d", how)
	}
	lock.Class, lock.Object = int32(lock.Number>>32), int32(lock.Number)
	lock.ClassID, lock.ObjectID = uint32(lock.Class), uint32(lock.Object)
	return lock, nil
}

func (b *builder) writeWaiters(all []waiterRow) {
	b.uint(uint64(len(all)))
	for _, w := range all {
		flags := uint64(0)
		if w.estimated {
			flags |= 1
		}
		if w.derived {
			flags |= 2
		}
		b.uint(flags)
		b.text(string(w.mode))
		b.uint(w.session)
		b.time(w.since)
		if w.derived {
			continue
		}
		b.uint(uint64(len(w.blockers)))
		for _, blocker := range w.blockers {
			b.int(int64(blocker.PID))
			b.text(blocker.GID)
			b.text(string(blocker.Kind))
		}
	}
}
