package tui

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// person is a session or prepared transaction, with its advisory locks and waits.
type person struct {
	*monitor.Session
	held []*monitor.Lock
	// lock is the advisory lock that it waits for, or other the lock of another type; both are nil when it does not
	// wait. waiter says how it waits.
	lock   *monitor.Lock
	other  *monitor.OtherLock
	waiter *monitor.Waiter
	// inWayOf are the sessions that it blocks directly.
	inWayOf []*person
}

// people are the sessions in a snapshot, in the order in which they appear there.
type people struct {
	all  []*person
	find map[monitor.SessionID]*person
}

// meet finds the holders and waiters of the shown locks, and who blocks whom.
func meet(s *monitor.Snapshot, shows func(*monitor.Lock) bool) people {
	met := people{find: map[monitor.SessionID]*person{}}
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
	met.follow(s)
	met.connect(s)
	return met
}

func (p *people) get(session *monitor.Session) *person {
	id := session.ID()
	known := p.find[id]
	if known == nil {
		known = &person{Session: session}
		p.find[id], p.all = known, append(p.all, known)
	}
	return known
}

// follow adds the waits for other locks that are connected with these sessions, directly or through others.
func (p *people) follow(s *monitor.Snapshot) {
	left := make([]*monitor.OtherWait, len(s.OtherWaits))
	for i := range s.OtherWaits {
		left[i] = &s.OtherWaits[i]
	}
	for known := -1; known != len(left); {
		known = len(left)
		left = slices.DeleteFunc(left, func(wait *monitor.OtherWait) bool {
			connected := p.find[wait.Session.ID()] != nil || slices.ContainsFunc(wait.BlockedBy,
				func(b monitor.Blocker) bool { return p.find[b.ID()] != nil })
			if connected {
				p.get(&wait.Session).waitOther(wait)
			}
			return connected
		})
	}
}

// connect also adds blockers that hold no shown advisory lock.
func (p *people) connect(s *monitor.Snapshot) {
	sessions := map[monitor.SessionID]*monitor.Session{}
	for session := range s.Sessions() {
		sessions[session.ID()] = &session
	}
	for _, waiter := range p.all {
		if waiter.waiter == nil {
			continue
		}
		for _, blocker := range waiter.waiter.BlockedBy {
			session := sessions[blocker.ID()]
			if session == nil {
				session = &monitor.Session{PID: blocker.PID, GID: blocker.GID, Hidden: []string{"user"}}
			}
			inWay := p.get(session)
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
		if blocker.Kind == monitor.BlockHard {
			first = blocker
			break
		}
	}
	return p.find[first.ID()]
}

func comparePeople(a, b *person) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID))
}

// meetOne returns one session with its locks and waits; nil if it is not in the snapshot.
func meetOne(s *monitor.Snapshot, id monitor.SessionID) *person {
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
			if session := &lock.Holders[j].Session; session.ID() == id {
				meet(session).hold(lock)
			}
		}
		for j := range lock.Waiters {
			waiter := &lock.Waiters[j]
			if waiter.Session.ID() == id {
				meet(&waiter.Session).wait(lock, waiter)
			}
			if slices.ContainsFunc(waiter.BlockedBy, func(b monitor.Blocker) bool { return b.ID() == id }) {
				other := &person{Session: &waiter.Session}
				other.wait(lock, waiter)
				behind = append(behind, other)
			}
		}
	}
	for i := range s.OtherSessions {
		if session := &s.OtherSessions[i]; session.ID() == id {
			meet(session)
		}
	}
	for i := range s.OtherWaits {
		wait := &s.OtherWaits[i]
		if wait.Session.ID() == id {
			meet(&wait.Session).waitOther(wait)
		}
		if slices.ContainsFunc(wait.BlockedBy, func(b monitor.Blocker) bool { return b.ID() == id }) {
			other := &person{Session: &wait.Session}
			other.waitOther(wait)
			behind = append(behind, other)
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

// waitOther notes a wait for a lock of another type. Parallel workers make a session wait for several locks; the first
// is shown.
func (p *person) waitOther(wait *monitor.OtherWait) {
	if p.waiter == nil {
		p.other, p.waiter = &wait.Lock, &wait.Waiter
	}
}

// waitsFor names the lock that it waits for; empty if it does not wait.
func (p *person) waitsFor() string {
	switch {
	case p.other != nil:
		return view.Printable(p.other.String())
	case p.lock != nil:
		return label(p.lock)
	}
	return ""
}
