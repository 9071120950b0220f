package tui

import (
	"cmp"
	"slices"

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

// people are the sessions in a snapshot, in the order in which they appear there.
type people struct {
	all  []*person
	find map[who]*person
}

// meet finds the holders and waiters of the locks that are shown, and who blocks whom.
func meet(s *monitor.Snapshot, shows func(*monitor.Lock) bool) people {
	met := people{find: map[who]*person{}}
	for i := range s.Locks {
		lock := &s.Locks[i]
		if !shows(lock) {
			continue
		}
		for j := range lock.Holders {
			met.get(&lock.Holders[j].Session).hold(lock)
		}
		for j := range lock.Waiters {
			met.get(&lock.Waiters[j].Session).wait(lock, &lock.Waiters[j])
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

// primaryBlocker returns the session that a waiter is shown below: the first that holds the lock, or else the first that is
// ahead in the queue.
func (p *people) primaryBlocker(waiter *person) *person {
	if waiter.waiter == nil || len(waiter.waiter.BlockedBy) == 0 {
		return nil
	}
	first := waiter.waiter.BlockedBy[0]
	for _, blocker := range waiter.waiter.BlockedBy {
		if blocker.Kind == monitor.Hard {
			first = blocker
			break
		}
	}
	return p.find[who{first.PID, first.GID}]
}

func comparePeople(a, b *person) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
}

// meetOne finds out about one session alone; nil says that it is not there.
func meetOne(s *monitor.Snapshot, id who) *person {
	var met *person
	meet := func(session *monitor.Session) *person {
		if met == nil {
			met = &person{Session: session}
		}
		return met
	}
	var behind []*person
	for i := range s.Locks {
		lock := &s.Locks[i]
		for j := range lock.Holders {
			if session := &lock.Holders[j].Session; whoIs(session) == id {
				meet(session).hold(lock)
			}
		}
		for j := range lock.Waiters {
			waiter := &lock.Waiters[j]
			if whoIs(&waiter.Session) == id {
				meet(&waiter.Session).wait(lock, waiter)
			}
			if slices.ContainsFunc(waiter.BlockedBy, func(b monitor.Blocker) bool { return who{b.PID, b.GID} == id }) {
				other := &person{Session: &waiter.Session}
				other.wait(lock, waiter)
				behind = append(behind, other)
			}
		}
	}
	if met != nil {
		met.inWayOf = behind
	}
	return met
}

// hold adds a lock, which a session can hold in two modes.
func (p *person) hold(lock *monitor.Lock) {
	if n := len(p.held); n == 0 || p.held[n-1] != lock {
		p.held = append(p.held, lock)
	}
}

func (p *person) wait(lock *monitor.Lock, waiter *monitor.Waiter) { p.lock, p.waiter = lock, waiter }
