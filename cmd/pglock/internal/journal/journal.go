// Package journal computes what happened to contended advisory locks from one snapshot to the next: which sessions
// acquired a lock, passed it on or released it, which waits began and ended, which deadlocks appeared, and which sessions
// ended.
//
// It compares snapshots, so it misses what begins and ends between two of them. For example, a session that released a
// lock and took it again in between seems to have held it throughout. Package recording stores snapshots. Their journal
// is the same whether it is computed during the recording or afterwards.
package journal

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Linger is how long events of a key are reported after the last wait for it.
const Linger = 10 * time.Minute

// maxKeys is how many contended keys a Journal remembers. Events of further keys are not reported.
const maxKeys = 10_000

// lockID identifies a lock: a key in a database, or in a row of it.
type lockID struct {
	inRow    bool
	database uint32
	key      pglock.KeyID
}

func lockIDOf(lock *monitor.Lock) lockID { return lockID{lock.InRow, lock.DatabaseOID, lock.ID()} }

// sessionID identifies a session, prepared transaction or process. If the role may not see when sessions began, only the
// process ID identifies a session.
type sessionID struct {
	monitor.SessionID
	since int64
}

func sessionIDOf(s *monitor.Session) sessionID {
	w := sessionID{SessionID: s.ID()}
	if s.Since != nil {
		w.since = s.Since.UnixNano()
	}
	return w
}

type waitID struct {
	lock    lockID
	session sessionID
}

// Journal keeps the state with which the next snapshot is compared. It must not be used from two goroutines at once.
type Journal struct {
	// End writes what ends the root of a headline, for the events; nil for none, as of the past.
	End func(monitor.Action) string

	server    monitor.Server           // of the last snapshot
	last      time.Time                // of the last snapshot; zero before the first
	previous  *monitor.Snapshot        // nil before the first
	locks     map[lockID]*monitor.Lock // of previous
	waits     map[waitID]string
	contended map[lockID]time.Time // when the key last had waiters
	cycles    map[string]monitor.Cycle
	others    map[otherID]*monitor.OtherWait // of previous
	gap       string                         // why there has been no snapshot since the last; empty if there was no gap
}

// New returns a journal that has seen nothing.
func New() *Journal {
	return &Journal{contended: map[lockID]time.Time{}, cycles: map[string]monitor.Cycle{}}
}

// Missed notes that no snapshot could be taken, and why. The next event is a Gap, and no lock counts as held through it.
func (j *Journal) Missed(err error) {
	if j.gap == "" && err != nil {
		j.gap = err.Error()
	}
}

// Gone returns the sessions that are not in s, but that in the last snapshot held a contended lock or waited for one, or
// blocked such sessions or were blocked by them with locks of other types. [Ended] finds out which of them have ended.
func (j *Journal) Gone(s *monitor.Snapshot) []monitor.Session {
	if len(j.contended) == 0 {
		return nil
	}
	gone := map[sessionID]*monitor.Session{}
	note := func(session *monitor.Session) { gone[sessionIDOf(session)] = session }
	for at, lock := range j.locks {
		if _, counts := j.contended[at]; counts {
			eachParty(lock, note)
		}
	}
	for i := range j.previous.OtherSessions {
		note(&j.previous.OtherSessions[i])
	}
	eachSession(s, func(session *monitor.Session) { delete(gone, sessionIDOf(session)) })
	var all []monitor.Session
	for id, session := range gone {
		if id.PID != 0 {
			all = append(all, *session)
		}
	}
	slices.SortFunc(all, func(a, b monitor.Session) int { return int(a.PID) - int(b.PID) })
	return slices.CompactFunc(all, func(a, b monitor.Session) bool { return a.PID == b.PID })
}

// eachSession calls each with the sessions of a snapshot, some of them more than once.
func eachSession(s *monitor.Snapshot, each func(*monitor.Session)) {
	for i := range s.Locks {
		eachParty(&s.Locks[i], each)
	}
	for i := range s.OtherSessions {
		each(&s.OtherSessions[i])
	}
}

func eachParty(lock *monitor.Lock, each func(*monitor.Session)) {
	for i := range lock.Holders {
		each(&lock.Holders[i].Session)
	}
	for i := range lock.Waiters {
		each(&lock.Waiters[i].Session)
	}
}

// See compares a snapshot with the one before, and returns what happened in between, in the order of keys. ended are the
// process IDs that [Ended] returned. See sets SeenSince and Code of the holders in s, so s must not be in use elsewhere.
// For the first snapshot it returns the present waits and deadlocks.
func (j *Journal) See(s *monitor.Snapshot, ended ...int32) []Event {
	j.server = s.Server
	var events []Event
	gap := j.gap != ""
	if gap {
		events = append(events, j.gapEvent(s))
	}
	locks := index(s)
	j.remember(s, gap)
	for i := range s.Locks {
		if len(s.Locks[i].Waiters) > 0 {
			j.noteContended(lockIDOf(&s.Locks[i]), s.TakenAt)
		}
	}
	over := j.endedSessions(ended, s)
	step := step{j, s.TakenAt, gap, over, sync.OnceValue(s.Tree)}
	for _, at := range j.reportedLocks(locks) {
		if before, after := j.locks[at], locks[at]; !sameParties(before, after) {
			events = append(events, step.compare(before, after)...)
		}
	}
	events = append(events, step.otherEvents(s)...)
	events = append(events, j.sessionEvents(s.TakenAt, over)...)
	events = append(events, j.cycleEvents(s)...)
	j.setHeadlines(events, s)
	j.dropUncontended(s.TakenAt, locks)
	j.last, j.previous, j.locks = s.TakenAt, s, locks
	return events
}

// setHeadlines sets the headline of the events that say that something waits.
func (j *Journal) setHeadlines(events []Event, s *monitor.Snapshot) {
	headline := sync.OnceValues(func() (text, end string) {
		h := s.Action()
		if j.End != nil {
			end = j.End(h)
		}
		return h.String(), end
	})
	for i := range events {
		switch events[i].Kind {
		case WaitBegan, Deadlock:
			events[i].Headline, events[i].End = headline()
		}
	}
}

func (j *Journal) gapEvent(s *monitor.Snapshot) Event {
	e := j.event(Gap, s.TakenAt)
	e.Reason = j.gap
	j.gap = ""
	return e
}

// index returns the locks of a snapshot by their IDs.
func index(s *monitor.Snapshot) map[lockID]*monitor.Lock {
	locks := make(map[lockID]*monitor.Lock, len(s.Locks))
	for i := range s.Locks {
		locks[lockIDOf(&s.Locks[i])] = &s.Locks[i]
	}
	return locks
}

// remember updates the waits, and sets SeenSince and Code of the holders: as in the snapshot before, if they held the lock
// there. After a gap that is unknown, since they may have released it in between.
func (j *Journal) remember(s *monitor.Snapshot, gap bool) {
	waiting := make(map[sessionID]bool, len(j.waits))
	for wait := range s.Waits() {
		waiting[sessionIDOf(&wait.Session)] = true
	}
	waits, now := make(map[waitID]string, len(j.waits)), s.TakenAt
	for i := range s.Locks {
		lock := &s.Locks[i]
		at := lockIDOf(lock)
		var before []monitor.Holder
		if was := j.locks[at]; was != nil && !gap {
			before = was.Holders
		}
		for k := range lock.Holders {
			holder := &lock.Holders[k]
			if lock.InRow {
				break // the snapshot knows
			}
			if was := sameHold(before, holder); was != nil {
				holder.SeenSince, holder.Code = was.SeenSince, was.Code
				continue
			}
			id := sessionIDOf(&holder.Session)
			holder.SeenSince, holder.Code = &now, j.codeOf(waitID{at, id}, holder.Session, waiting[id])
		}
		for k := range lock.Waiters {
			waiter := &lock.Waiters[k]
			id := waitID{at, sessionIDOf(&waiter.Session)}
			if code := codeOf(&waiter.Session); code != "" {
				waits[id] = code
			} else {
				waits[id] = j.waits[id]
			}
		}
	}
	j.waits = waits
}

// sameHold returns the hold of the same session among the holders of a lock in another snapshot, or nil. They are sorted.
func sameHold(holders []monitor.Holder, h *monitor.Holder) *monitor.Holder {
	at, found := sort.Find(len(holders), func(i int) int {
		other := &holders[i]
		return cmp.Or(cmp.Compare(h.PID, other.PID), cmp.Compare(h.GID, other.GID), cmp.Compare(h.Mode, other.Mode))
	})
	if !found || holdOf(&holders[at]) != holdOf(h) {
		return nil
	}
	return &holders[at]
}

// noteContended notes that a key has waiters.
func (j *Journal) noteContended(at lockID, when time.Time) {
	if _, known := j.contended[at]; known || len(j.contended) < maxKeys {
		j.contended[at] = when
	}
}

// reportedLocks returns the locks whose events are reported, sorted.
func (j *Journal) reportedLocks(now map[lockID]*monitor.Lock) []lockID {
	var ids []lockID
	for at := range j.contended {
		if j.locks[at] != nil || now[at] != nil {
			ids = append(ids, at)
		}
	}
	slices.SortFunc(ids, compareLockIDs)
	return ids
}

// dropUncontended drops keys that have had no waiters for Linger, or for twice as long if they are held.
func (j *Journal) dropUncontended(now time.Time, locks map[lockID]*monitor.Lock) {
	for at, last := range j.contended {
		age := now.Sub(last)
		if age > 2*Linger || age > Linger && locks[at] == nil || age < -Linger {
			delete(j.contended, at)
		}
	}
}
