package tui

import (
	"cmp"

	"github.com/pglock-toolkit/pglock/monitor"
)

// who is a session, or a prepared transaction.
type who struct {
	pid int32
	gid string
}

func whoIs(session *monitor.Session) who { return who{session.PID, session.GID} }

// person is a session or prepared transaction with what it has to do with advisory locks.
type person struct {
	*monitor.Session
	held []*monitor.Lock
	// lock is what it waits for, and waiter how; nil when it does not wait.
	lock   *monitor.Lock
	waiter *monitor.Waiter
	// inWayOf are those that cannot go on before it does, directly.
	inWayOf []*person
}

// people are everybody in a snapshot, in the order in which they appear there.
type people struct {
	all  []*person
	find map[who]*person
}

// meet finds everybody who holds or waits for a lock that is shown, and who is in whose way.
func meet(s *monitor.Snapshot, shows func(*monitor.Lock) bool) people {
	met := people{find: map[who]*person{}}
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Holders {
			holder := met.get(&lock.Holders[j].Session)
			if n := len(holder.held); n == 0 || holder.held[n-1] != lock { // a lock can be held in two modes
				holder.held = append(holder.held, lock)
			}
		}
		for j := range lock.Waiters {
			waiter := met.get(&lock.Waiters[j].Session)
			waiter.lock, waiter.waiter = lock, &lock.Waiters[j]
		}
	}
	met.connect()
	return met
}

func (p *people) get(session *monitor.Session) *person {
	id := whoIs(session)
	known := p.find[id]
	if known == nil {
		known = &person{Session: session}
		p.find[id], p.all = known, append(p.all, known)
	}
	return known
}

// connect also adds those that are in the way, but have ended or gone on since.
func (p *people) connect() {
	for _, waiter := range p.all {
		if waiter.waiter == nil {
			continue
		}
		for _, blocker := range waiter.waiter.BlockedBy {
			inWay := p.get(&monitor.Session{PID: blocker.PID, GID: blocker.GID, Hidden: []string{"user"}})
			inWay.inWayOf = append(inWay.inWayOf, waiter)
		}
	}
}

// chief is whom a waiter is shown below: the first who holds the lock, or else the first who is ahead in the queue.
func (p *people) chief(waiter *person) *person {
	if waiter.waiter == nil || len(waiter.waiter.BlockedBy) == 0 {
		return nil
	}
	chief := waiter.waiter.BlockedBy[0]
	for _, blocker := range waiter.waiter.BlockedBy {
		if blocker.Kind == monitor.Hard {
			chief = blocker
			break
		}
	}
	return p.find[who{chief.PID, chief.GID}]
}

func comparePeople(a, b *person) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
}
