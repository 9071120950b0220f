package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

func compareLockIDs(a, b lockID) int {
	if a.inRow != b.inRow {
		if b.inRow {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.database, b.database), a.key.Compare(b.key))
}

// reasonSessionEnded is the Reason of events that the end of a session caused.
const reasonSessionEnded = "session ended"

// step is what happened between two snapshots.
type step struct {
	*Journal
	at    time.Time
	gap   bool // whether there was a gap between them
	ended map[sessionID]*monitor.Session
	tree  func() *monitor.Tree // of the second one
}

// compare returns what happened to one lock. before and after are nil if it was free.
func (s step) compare(before, after *monitor.Lock) []Event {
	lock := cmp.Or(after, before)
	was, is := partiesOf(before), partiesOf(after)
	lost, gained := was.holdersWithout(is), is.holdersWithout(was)
	events := s.holderEvents(lock, was, lost, gained)
	events = append(events, s.waitEndedEvents(lock, was, is)...)
	return append(events, s.waitBeganEvents(after, was, is)...)
}

// sameParties reports whether a lock has the same holders and waiters, in the same order. Then nothing happened to it.
func sameParties(before, after *monitor.Lock) bool {
	if before == nil || after == nil || len(before.Holders) != len(after.Holders) || len(before.Waiters) != len(after.Waiters) {
		return false
	}
	for i := range after.Holders {
		a, b := &before.Holders[i], &after.Holders[i]
		if holdOf(a) != holdOf(b) {
			return false
		}
	}
	for i := range after.Waiters {
		if sessionIDOf(&before.Waiters[i].Session) != sessionIDOf(&after.Waiters[i].Session) {
			return false
		}
	}
	return true
}

// lockParties are the holders and waiters of a lock, which can be thousands.
type lockParties struct {
	lock    *monitor.Lock // not nil
	waiters map[sessionID]*monitor.Waiter
	holders map[sessionID]*monitor.Holder // a session that holds the lock in two modes is there once
	holds   map[sessionHold]bool
}

// sessionHold identifies how a session holds a lock. Each grant of a lock in a row has a generation of its own.
type sessionHold struct {
	session    sessionID
	mode       string
	generation int64
}

func holdOf(h *monitor.Holder) sessionHold {
	return sessionHold{sessionIDOf(&h.Session), h.Mode, h.Generation}
}

func partiesOf(lock *monitor.Lock) lockParties {
	p := lockParties{cmp.Or(lock, &monitor.Lock{}), nil, nil, nil}
	p.waiters = make(map[sessionID]*monitor.Waiter, len(p.lock.Waiters))
	p.holders = make(map[sessionID]*monitor.Holder, len(p.lock.Holders))
	p.holds = make(map[sessionHold]bool, len(p.lock.Holders))
	for i := range p.lock.Waiters {
		p.waiters[sessionIDOf(&p.lock.Waiters[i].Session)] = &p.lock.Waiters[i]
	}
	for i := range p.lock.Holders {
		h := &p.lock.Holders[i]
		p.holders[sessionIDOf(&h.Session)] = h
		p.holds[holdOf(h)] = true
	}
	return p
}

// holdersWithout returns the holders that are not in the other. It returns a holder of several permits once.
func (p lockParties) holdersWithout(other lockParties) (only []monitor.Holder) {
	seen := map[sessionHold]bool{}
	for i := range p.lock.Holders {
		h := &p.lock.Holders[i]
		if id := holdOf(h); !other.holds[id] && !seen[id] {
			seen[id] = true
			only = append(only, *h)
		}
	}
	return only
}

// holderEvents returns the events about changed holders. If one session lost the lock and another gained it, the lock
// was passed on.
func (s step) holderEvents(lock *monitor.Lock, was lockParties, lost, gained []monitor.Holder) []Event {
	var events []Event
	for i := range gained {
		if s.last.IsZero() {
			break // it was held before the first snapshot
		}
		e := s.event(Acquired, s.at).withLock(lock).withSession(holderParty(gained[i]))
		e.Mode = gained[i].Mode
		if waiter := was.waiters[sessionIDOf(&gained[i].Session)]; waiter != nil {
			e = s.withWait(e, waiter.WaitingSince)
		}
		for k := range lost {
			if len(e.From) == maxParties {
				break
			}
			if sessionIDOf(&lost[k].Session) != sessionIDOf(&gained[i].Session) {
				e.Kind, e.From = PassedOn, append(e.From, holderParty(lost[k]))
				e.Reason = s.reason(&lost[k].Session)
			}
		}
		events = append(events, e)
	}
	if len(events) > 0 && events[0].Kind == PassedOn {
		return events
	}
	for i := range lost {
		e := s.event(Released, s.at).withLock(lock).withSession(holderParty(lost[i]))
		e.Mode, e.SeenSince, e.Reason = lost[i].Mode, lost[i].SeenSince, s.reason(&lost[i].Session)
		events = append(events, e)
	}
	return events
}

func (s step) reason(session *monitor.Session) string {
	if _, ended := s.ended[sessionIDOf(session)]; ended {
		return reasonSessionEnded
	}
	return ""
}

// waitEndedEvents returns the events about waits that ended without the lock. Waits that ended with the lock are in
// holderEvents.
func (s step) waitEndedEvents(lock *monitor.Lock, was, is lockParties) []Event {
	var events []Event
	for i := range was.lock.Waiters {
		waiter := &was.lock.Waiters[i]
		id := sessionIDOf(&waiter.Session)
		if is.waiters[id] != nil || is.holders[id] != nil {
			continue
		}
		e := s.withWait(s.event(WaitEnded, s.at).withLock(lock).withSession(party(waiter.Session)), waiter.WaitingSince)
		e.Mode, e.Reason = waiter.Mode, s.reason(&waiter.Session)
		e.Code = codeOf(&waiter.Session)
		events = append(events, e)
	}
	return events
}

func (s step) waitBeganEvents(after *monitor.Lock, was, is lockParties) []Event {
	var events []Event
	var byID map[monitor.SessionID]Party
	for i := range is.lock.Waiters {
		waiter := &is.lock.Waiters[i]
		if was.waiters[sessionIDOf(&waiter.Session)] != nil {
			continue
		}
		if byID == nil {
			byID = is.byID()
		}
		e := s.event(WaitBegan, s.at).withLock(after).withSession(party(waiter.Session))
		e.Mode, e.WaitingSince = waiter.Mode, waiter.WaitingSince
		e.Code = s.waits[waitID{lockIDOf(after), sessionIDOf(&waiter.Session)}]
		e.BlockedBy = blockers(byID, waiter)
		events = append(events, e)
	}
	return events
}

// byID returns the holders and waiters by their IDs in the snapshot. A session that does both counts as a holder.
func (p lockParties) byID() map[monitor.SessionID]Party {
	all := map[monitor.SessionID]Party{}
	for _, w := range p.lock.Waiters {
		all[w.ID()] = party(w.Session)
	}
	for _, h := range p.lock.Holders {
		all[h.ID()] = holderParty(h)
	}
	return all
}

// maxParties is how many blockers or former holders an event names. Without a limit the events of n waiters would have n²
// of them.
const maxParties = 10

func blockers(byID map[monitor.SessionID]Party, waiter *monitor.Waiter) []Party {
	parties := []Party{}
	for _, b := range waiter.BlockedBy[:min(len(waiter.BlockedBy), maxParties)] {
		p, there := byID[b.ID()]
		if !there {
			p = Party{PID: b.PID, GID: b.GID, Holder: b.Holder}
		}
		parties = append(parties, p)
	}
	return parties
}

// codeOf returns the code that took a lock, for a session that did not hold it in the snapshot before: that with which it has
// waited, or else a statement that takes such locks. What it waits with now is about another lock.
func (j *Journal) codeOf(id waitID, s monitor.Session, waits bool) string {
	if code := j.waits[id]; code != "" {
		return code
	}
	if s.Process != "" || !waits && strings.Contains(strings.ToLower(s.Query), "advisory") {
		return codeOf(&s)
	}
	return ""
}

// endedSessions returns the sessions of the previous snapshot that have ended.
func (j *Journal) endedSessions(ended []int32, now *monitor.Snapshot) map[sessionID]*monitor.Session {
	over := map[sessionID]*monitor.Session{}
	if len(ended) == 0 || j.previous == nil {
		return over
	}
	eachSession(j.previous, func(session *monitor.Session) {
		if session.PID != 0 && slices.Contains(ended, session.PID) {
			over[sessionIDOf(session)] = session
		}
	})
	eachSession(now, func(session *monitor.Session) { delete(over, sessionIDOf(session)) })
	return over
}

func (j *Journal) sessionEvents(at time.Time, over map[sessionID]*monitor.Session) []Event {
	var events []Event
	for _, session := range over {
		e := j.event(SessionEnded, at).withSession(party(*session))
		e.Database = session.Database
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Session.PID, b.Session.PID) })
	return events
}

// cycleEvents returns the events about deadlocks that began or are over.
func (j *Journal) cycleEvents(s *monitor.Snapshot) []Event {
	var events []Event
	now := map[string]monitor.Cycle{}
	for _, cycle := range s.Cycles {
		id := signature(cycle)
		now[id] = cycle
		if _, known := j.cycles[id]; !known {
			events = append(events, j.cycleEvent(Deadlock, s.TakenAt, cycle))
		}
	}
	for id, cycle := range j.cycles {
		if _, there := now[id]; !there {
			events = append(events, j.cycleEvent(DeadlockOver, s.TakenAt, cycle))
		}
	}
	j.cycles = now
	return events
}

func (j *Journal) cycleEvent(kind Kind, at time.Time, cycle monitor.Cycle) Event {
	e := j.event(kind, at)
	e.Steps, e.Certain = cycle.Steps, cycle.Certain
	return e
}

func signature(c monitor.Cycle) string {
	var b strings.Builder
	for _, step := range c.Steps {
		_, _ = fmt.Fprintf(&b, "%d %s %s|", step.PID, step.Database, step.Key) // a strings.Builder does not fail
	}
	return b.String()
}
