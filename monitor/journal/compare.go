package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.database, b.database), cmp.Compare(a.key.Space, b.key.Space),
		cmp.Compare(a.key.Number, b.key.Number))
}

// endedReason is the reason of what the end of a session caused.
const endedReason = "session ended"

// step is what happened between two snapshots.
type step struct {
	*Journal
	at    time.Time
	ended map[who]monitor.Session
}

// compare returns what happened to one lock, before and after being nil when it was free.
func (s step) compare(before, after *monitor.Lock) []Event {
	lock := cmp.Or(after, before)
	lost, gained := s.changedHolders(before, after)
	events := s.handovers(lock, before, lost, gained)
	events = append(events, s.endedWaits(lock, before, after)...)
	if after != nil {
		events = append(events, s.begunWaits(before, after)...)
	}
	return events
}

// changedHolders returns the sessions that held the lock only before, and those that hold it only now.
func (s step) changedHolders(before, after *monitor.Lock) (lost, gained []monitor.Holder) {
	return holdersWithout(before, after), holdersWithout(after, before)
}

// holdersWithout returns the holders of a that b does not have. A holder of several permits is there once.
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
	return a.Mode == b.Mode && whoIs(&a.Session) == whoIs(&b.Session)
}

// handovers reports the changes of holders. If one session lost the lock and another gained it, it was passed on.
func (s step) handovers(lock, before *monitor.Lock, lost, gained []monitor.Holder) []Event {
	var events []Event
	for i := range gained {
		if s.last.IsZero() {
			break // it was held when the watch began
		}
		e := s.event(Acquired, s.at).on(lock).by(holderParty(gained[i]))
		e.Mode = gained[i].Mode
		if waiter := waiterOf(before, &gained[i].Session); waiter != nil {
			e = e.waited(waiter.WaitingSince)
		}
		for k := range lost {
			if whoIs(&lost[k].Session) != whoIs(&gained[i].Session) {
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
		e := s.event(Released, s.at).on(lock).by(holderParty(lost[i]))
		e.Mode, e.SeenSince, e.Reason = lost[i].Mode, lost[i].SeenSince, s.reason(&lost[i].Session)
		events = append(events, e)
	}
	return events
}

func (s step) reason(session *monitor.Session) string {
	if _, ended := s.ended[whoIs(session)]; ended {
		return endedReason
	}
	return ""
}

// endedWaits reports the waits that ended without the lock; those that ended with it are in the changes of holders.
func (s step) endedWaits(lock, before, after *monitor.Lock) []Event {
	if before == nil {
		return nil
	}
	var events []Event
	for i := range before.Waiters {
		waiter := &before.Waiters[i]
		if waiterOf(after, &waiter.Session) != nil || heldBy(after, &waiter.Session) {
			continue
		}
		e := s.event(WaitEnded, s.at).on(lock).by(party(waiter.Session)).waited(waiter.WaitingSince)
		e.Mode, e.Reason = waiter.Mode, s.reason(&waiter.Session)
		e.Code = monitor.CodeOf(waiter.Session, monitor.CodeSeenWaiting)
		events = append(events, e)
	}
	return events
}

func (s step) begunWaits(before, after *monitor.Lock) []Event {
	var events []Event
	for i := range after.Waiters {
		waiter := &after.Waiters[i]
		if waiterOf(before, &waiter.Session) != nil {
			continue
		}
		e := s.event(WaitBegan, s.at).on(after).by(party(waiter.Session))
		e.Mode, e.WaitingSince = waiter.Mode, waiter.WaitingSince
		e.Code = s.waits[claim{placeOf(after), whoIs(&waiter.Session)}]
		e.BlockedBy = blockers(after, waiter)
		events = append(events, e)
	}
	return events
}

// mostBlockers is how many sessions in the way an event names: a queue of n has n² of them.
const mostBlockers = 10

func blockers(lock *monitor.Lock, waiter *monitor.Waiter) []Party {
	parties := []Party{}
	for _, b := range waiter.BlockedBy {
		if len(parties) == mostBlockers {
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
		if whoIs(&lock.Waiters[i].Session) == whoIs(s) {
			return &lock.Waiters[i]
		}
	}
	return nil
}

func heldBy(lock *monitor.Lock, s *monitor.Session) bool {
	return lock != nil && slices.ContainsFunc(lock.Holders, func(h monitor.Holder) bool {
		return whoIs(&h.Session) == whoIs(s)
	})
}

// codeOf is what is known of the code that took a lock, of a session that was not seen to hold it before.
func (j *Journal) codeOf(id claim, s monitor.Session, waits bool) *monitor.Code {
	if code := j.waits[id]; code != nil {
		return code
	}
	if s.Process != "" || mayTake(s.Query, id.place.key, waits) {
		return monitor.CodeOf(s, monitor.CodeSeenTaking)
	}
	return nil
}

// endedSessions are those of the last snapshot that have ended.
func (j *Journal) endedSessions(ended []int32, now map[who]monitor.Session) map[who]monitor.Session {
	over := map[who]monitor.Session{}
	for id, session := range j.sessions {
		if _, there := now[id]; !there && slices.Contains(ended, id.pid) {
			over[id] = session
		}
	}
	return over
}

func (j *Journal) sessionEvents(at time.Time, over map[who]monitor.Session) []Event {
	var events []Event
	for _, session := range over {
		e := j.event(SessionEnded, at).by(party(session))
		e.Database = session.Database
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Session.PID, b.Session.PID) })
	return events
}

// cycleEvents reports the deadlocks that came and went.
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
