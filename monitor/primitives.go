package monitor

import (
	"cmp"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
)

// isMark reports whether a lock only says what another one is for.
func isMark(id identity) bool { return lockkeys.IsMark(id.key()) }

// marks are the sessions and processes that hold a lock which says what another one is for.
type marks map[identity][]Session

func marksOf(t tables, found map[string]Session) marks {
	m := marks{}
	for id, row := range t.locks() {
		if isMark(id) && row.Granted.Bool {
			m[id] = append(m[id], found[row.Owner])
		}
	}
	return m
}

// kind returns for what a session or process holds a lock or waits for it, as it says itself: it, or another session of its
// process, holds the mark. What sessions of other roles say does not count.
func (m marks) kind(id identity, s Session) string {
	has := func(mark lockkeys.Mark) bool {
		key := mark.Of(id.key())
		return slices.ContainsFunc(m[identity{id.database, int16(key.Space), key.Number}], func(other Session) bool {
			return other.ID() == s.ID() || other.sameProcess(s)
		})
	}
	switch {
	case has(lockkeys.LeaderMark):
		return kindLeader
	case has(lockkeys.TickMark):
		return kindTick
	}
	return kindLock
}

// recognise sets what the lock is for, as its holders say or, if it has none, those who wait for it, and which waits are
// normal work.
func (l *Lock) recognise(id identity, m marks) {
	if len(m) == 0 {
		return
	}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		kind := m.kind(id, w.Session)
		if w.Expected = kind != kindLock; w.Expected && len(l.Holders) == 0 {
			l.Kind = kind
		}
	}
	for _, h := range l.Holders {
		if kind := m.kind(id, h.Session); kind != kindLock {
			l.Kind = kind
		}
	}
}

// recognisePrimitives recognises the locks of leaders and jobs, and merges the locks of each semaphore into one.
func recognisePrimitives(grouped map[identity]*Lock, t tables, found map[string]Session) {
	m := marksOf(t, found)
	for id, lock := range grouped {
		lock.recognise(id, m)
	}
	foldSemaphores(grouped, t)
}

// foldSemaphores merges the slots and the gate of each semaphore into one lock.
func foldSemaphores(grouped map[identity]*Lock, t tables) {
	known := sync.OnceValue(func() map[lockkeys.SemaphoreID]namedSemaphore { return registeredSemaphores(t.names) })
	for id, lock := range grouped {
		semaphore, slot, ok := lockkeys.ParseSemaphore(id.key())
		if !ok || lock.Kind == kindSemaphore {
			continue
		}
		gate := semaphore.Key(0)
		at := identity{id.database, int16(gate.Space), gate.Number}
		whole := grouped[at]
		if whole == nil || whole.Kind != kindSemaphore {
			whole = newLock(at, lock.Database)
			whole.Kind, whole.InRow = kindSemaphore, lock.InRow
			if id.database == t.rows[0].ConnectedOid.Uint32 {
				whole.name(known()[semaphore])
			}
			if old := grouped[at]; old != nil && slot != 0 {
				whole.addGate(old)
			}
			grouped[at] = whole
		}
		if slot == 0 {
			whole.addGate(lock)
			continue
		}
		whole.Holders = append(whole.Holders, lock.Holders...)
		whole.Waiters = append(whole.Waiters, lock.Waiters...) // not of pglock, which only tries
		whole.Used += len(lock.Holders)
		delete(grouped, id)
	}
	for _, lock := range grouped {
		if lock.Kind == kindSemaphore && lock.Used >= lock.Limit {
			lock.blockFirst()
		}
	}
}

// blockFirst notes that who holds the gate, and so is first in line, waits for those that have the permits.
func (l *Lock) blockFirst() {
	slices.SortFunc(l.Holders, compareHolders)
	for i := range l.Waiters {
		w := &l.Waiters[i]
		if w.WaitingSince != nil || len(w.BlockedBy) > 0 {
			continue
		}
		for _, h := range l.Holders {
			id := h.ID()
			w.BlockedBy = append(w.BlockedBy, Blocker{PID: id.PID, GID: id.GID, Holder: id.Holder, Kind: blockHard})
		}
		w.BlockedBy = distinct(w.BlockedBy)
	}
}

// addGate turns holders of the gate, and waiters for it, into waiters for a permit.
func (l *Lock) addGate(gate *Lock) {
	for _, holder := range gate.Holders {
		l.Waiters = append(l.Waiters, Waiter{Mode: holder.Mode, Session: holder.Session, BlockedBy: []Blocker{}})
	}
	l.Waiters = append(l.Waiters, gate.Waiters...)
	for i := range l.Waiters {
		l.Waiters[i].Expected = true // who waits for a gate has chosen it
	}
}

// namedSemaphore is what a registry of names knows about a semaphore.
type namedSemaphore struct {
	key   string
	limit int
}

func (l *Lock) name(known namedSemaphore) {
	l.Key, l.Limit = cmp.Or(known.key, l.Key), known.limit
}

// registeredSemaphores finds the semaphores among the names. If a deployment has changed the limit, the larger one
// counts, as it does for the semaphore itself.
func registeredSemaphores(names registered) map[lockkeys.SemaphoreID]namedSemaphore {
	known := map[lockkeys.SemaphoreID]namedSemaphore{}
	for _, all := range names {
		for _, name := range all {
			text, limit, ok := lockkeys.ParseSemaphoreName(name)
			if !ok {
				continue
			}
			key, err := pglock.ParseKey(text)
			if err != nil {
				continue // a Locker writes every name, even an empty one, so that it can be parsed; this is not from a Locker
			}
			id := lockkeys.Semaphore(key.ID())
			if limit > known[id].limit {
				known[id] = namedSemaphore{text, limit}
			}
		}
	}
	return known
}
