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
	return cmp.Or(cmp.Compare(a.database, b.database), cmp.Compare(a.key.Space, b.key.Space),
		cmp.Compare(a.key.Number, b.key.Number))
}

// reasonSessionEnded is the Reason of events that the end of a session caused.
const reasonSessionEnded = "session ended"

// step is what happened between two snapshots.
type step struct {
	*Journal
	at    time.Time
	ended map[sessionID]monitor.Session
}

// compare returns what happened to one lock. before and after are nil if it was free.
func (s step) compare(before, after *monitor.Lock) []Event {
	lock := cmp.Or(after, before)
	lost, gained := s.changedHolders(before, after)
	events := s.holderEvents(lock, before, lost, gained)
	events = append(events, s.waitEndedEvents(lock, before, after)...)
	if after != nil {
		events = append(events, s.waitBeganEvents(before, after)...)
	}
	return events
}

// changedHolders returns the holders that lost the lock and those that gained it.
func (s step) changedHolders(before, after *monitor.Lock) (lost, gained []monitor.Holder) {
	return holdersWithout(before, after), holdersWithout(after, before)
}

// holdersWithout returns the holders of a that are not in b. It returns a holder of several permits once.
func holdersWithout(a, b *monitor.Lock) (only []monitor.Holder) {
	if a == nil {
		return nil
	}
	for i := range a.Holders {
		if !holds(b, &a.Holders[i]) && !slices.ContainsFunc(only, func(h monitor.Holder) bool {
			return sameHolder(&h, &a.Holders[i])
		}) {
			only = append(only, a.Holders[i])
		}
	}
	return only
}

func holds(lock *monitor.Lock, h *monitor.Holder) bool {
	return lock != nil && slices.ContainsFunc(lock.Holders, func(other monitor.Holder) bool { return sameHolder(&other, h) })
}

func sameHolder(a, b *monitor.Holder) bool {
	return a.Mode == b.Mode && sessionIDOf(&a.Session) == sessionIDOf(&b.Session)
}

// holderEvents returns the events about changed holders. If one session lost the lock and another gained it, the lock
// was passed on.
func (s step) holderEvents(lock, before *monitor.Lock, lost, gained []monitor.Holder) []Event {
	var events []Event
	for i := range gained {
		if s.last.IsZero() {
			break // it was held before the first snapshot
		}
		e := s.event(Acquired, s.at).withLock(lock).withSession(holderParty(gained[i]))
		e.Mode = gained[i].Mode
		if waiter := waiterOf(before, &gained[i].Session); waiter != nil {
			e = e.withWait(waiter.WaitingSince)
		}
		for k := range lost {
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
func (s step) waitEndedEvents(lock, before, after *monitor.Lock) []Event {
	if before == nil {
		return nil
	}
	var events []Event
	for i := range before.Waiters {
		waiter := &before.Waiters[i]
		if waiterOf(after, &waiter.Session) != nil || heldBy(after, &waiter.Session) {
			continue
		}
		e := s.event(WaitEnded, s.at).withLock(lock).withSession(party(waiter.Session)).withWait(waiter.WaitingSince)
		e.Mode, e.Reason = waiter.Mode, s.reason(&waiter.Session)
		e.Code = monitor.CodeOf(waiter.Session, monitor.CodeSeenWaiting)
		events = append(events, e)
	}
	return events
}

func (s step) waitBeganEvents(before, after *monitor.Lock) []Event {
	var events []Event
	for i := range after.Waiters {
		waiter := &after.Waiters[i]
		if waiterOf(before, &waiter.Session) != nil {
			continue
		}
		e := s.event(WaitBegan, s.at).withLock(after).withSession(party(waiter.Session))
		e.Mode, e.WaitingSince = waiter.Mode, waiter.WaitingSince
		e.Code = s.waits[waitID{lockIDOf(after), sessionIDOf(&waiter.Session)}]
		e.BlockedBy = blockers(after, waiter)
		events = append(events, e)
	}
	return events
}

// maxBlockers is how many blockers an event names. Without a limit the events of n waiters would have n² of them.
const maxBlockers = 10

func blockers(lock *monitor.Lock, waiter *monitor.Waiter) []Party {
	parties := []Party{}
	for _, b := range waiter.BlockedBy {
		if len(parties) == maxBlockers {
			break
		}
		parties = append(parties, blocker(lock, b))
	}
	return parties
}

func blocker(lock *monitor.Lock, b monitor.Blocker) Party {
	for i := range lock.Holders {
		if h := &lock.Holders[i]; h.PID == b.PID && h.GID == b.GID {
			return holderParty(*h)
		}
	}
	for i := range lock.Waiters {
		if w := &lock.Waiters[i]; w.PID == b.PID {
			return party(w.Session)
		}
	}
	return Party{PID: b.PID, GID: b.GID}
}

func waiterOf(lock *monitor.Lock, s *monitor.Session) *monitor.Waiter {
	if lock == nil {
		return nil
	}
	for i := range lock.Waiters {
		if sessionIDOf(&lock.Waiters[i].Session) == sessionIDOf(s) {
			return &lock.Waiters[i]
		}
	}
	return nil
}

func heldBy(lock *monitor.Lock, s *monitor.Session) bool {
	return lock != nil && slices.ContainsFunc(lock.Holders, func(h monitor.Holder) bool {
		return sessionIDOf(&h.Session) == sessionIDOf(s)
	})
}

// codeOf returns the code that took a lock, for a session that did not hold it in the snapshot before.
func (j *Journal) codeOf(id waitID, s monitor.Session, waits bool) *monitor.Code {
	if code := j.waits[id]; code != nil {
		return code
	}
	if s.Process != "" || mayTake(s.Query, id.lock.key, waits) {
		return monitor.CodeOf(s, monitor.CodeSeenTaking)
	}
	return nil
}

// endedSessions returns the sessions of the previous snapshot that have ended.
func (j *Journal) endedSessions(ended []int32, now map[sessionID]monitor.Session) map[sessionID]monitor.Session {
	over := map[sessionID]monitor.Session{}
	for id, session := range j.sessions {
		if _, there := now[id]; !there && slices.Contains(ended, id.pid) {
			over[id] = session
		}
	}
	return over
}

func (j *Journal) sessionEvents(at time.Time, over map[sessionID]monitor.Session) []Event {
	var events []Event
	for _, session := range over {
		e := j.event(SessionEnded, at).withSession(party(session))
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
