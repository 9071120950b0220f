// Package journal computes what happened to contended advisory locks from one snapshot to the next: who acquired a lock,
// which session it passed to, which waits began and how long they were, which deadlocks were seen, which sessions ended.
//
// It compares snapshots. It misses what begins and ends between two of them: a session that released a lock and took it
// again in that time seems to have held it throughout. Package recording keeps snapshots; their journal is the same
// whether it is computed during the recording or afterwards.
package journal

import (
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Linger is for how long events of a key are reported after the last wait for it.
const Linger = 10 * time.Minute

// mostKeys is how many keys events are reported of at once; a key beyond that is reported while it is waited for.
const mostKeys = 10_000

// place is a lock: a key in a database.
type place struct {
	database uint32
	key      pglock.KeyID
}

func placeOf(lock *monitor.Lock) place { return place{lock.DatabaseOID, lock.ID()} }

// who is a session or prepared transaction. Where the role may not see when sessions began, it is the process ID alone.
type who struct {
	pid   int32
	gid   string
	since int64
}

func whoIs(s *monitor.Session) who {
	w := who{pid: s.PID, gid: s.GID}
	if s.Since != nil {
		w.since = s.Since.UnixNano()
	}
	return w
}

// tenure is a session that holds a lock in a mode; claim is a session that waits for it.
type tenure struct {
	place place
	who   who
	mode  monitor.Mode
}

type claim struct {
	place place
	who   who
}

type hold struct {
	since time.Time
	code  *monitor.Code
}

// Journal remembers what the next snapshot is compared with. It must not be used from two goroutines at once.
type Journal struct {
	server    monitor.Server // of the snapshot that was seen last
	last      time.Time      // of the last snapshot; zero before the first
	previous  *monitor.Snapshot
	locks     map[place]*monitor.Lock // of previous
	sessions  map[who]monitor.Session // of previous
	holds     map[tenure]hold
	waits     map[claim]*monitor.Code
	contended map[place]time.Time // when it was last waited for
	cycles    map[string]monitor.Cycle
	gap       string // why there is none since the last
}

// New returns a journal that has seen nothing.
func New() *Journal {
	return &Journal{contended: map[place]time.Time{}, cycles: map[string]monitor.Cycle{}}
}

// Missed notes that there was no snapshot, and why. The next event is a Gap, and no lock counts as held through it.
func (j *Journal) Missed(err error) {
	if j.gap == "" && err != nil {
		j.gap = err.Error()
	}
}

// Gone returns the sessions that held a contended lock or waited for one in the last snapshot, or that were in the way of
// such sessions or behind them for locks of other types, and are not part of s.
// Whether they have ended is for the server to say: [Ended].
func (j *Journal) Gone(s *monitor.Snapshot) []monitor.Session {
	if len(j.contended) == 0 {
		return nil
	}
	_, present := index(s)
	var gone []monitor.Session
	for _, lock := range j.locks {
		if _, counts := j.contended[placeOf(lock)]; !counts {
			continue
		}
		for i := range lock.Holders {
			gone = appendGone(gone, &lock.Holders[i].Session, present)
		}
		for i := range lock.Waiters {
			gone = appendGone(gone, &lock.Waiters[i].Session, present)
		}
	}
	if j.previous != nil {
		for i := range j.previous.OtherSessions {
			gone = appendGone(gone, &j.previous.OtherSessions[i], present)
		}
	}
	slices.SortFunc(gone, func(a, b monitor.Session) int { return int(a.PID) - int(b.PID) })
	return slices.CompactFunc(gone, func(a, b monitor.Session) bool { return a.PID == b.PID })
}

func appendGone(gone []monitor.Session, s *monitor.Session, present map[who]monitor.Session) []monitor.Session {
	if _, there := present[whoIs(s)]; there || s.Prepared() {
		return gone
	}
	return append(gone, *s)
}

// See compares a snapshot with the one before, and returns what happened in between, in the order of keys. Ended are the
// process IDs of the sessions that [Ended] found to have ended. The holders of s get their SeenSince and Code; no
// others may use s meanwhile. Of the first snapshot it reports the waits and deadlocks that there are.
func (j *Journal) See(s *monitor.Snapshot, ended ...int32) []Event {
	j.server = s.Server
	var events []Event
	if j.gap != "" {
		events = append(events, j.gapEvent(s))
	}
	locks, sessions := index(s)
	j.remember(s)
	for i := range s.Locks {
		if len(s.Locks[i].Waiters) > 0 {
			j.contend(placeOf(&s.Locks[i]), s.TakenAt)
		}
	}
	over := j.endedSessions(ended, sessions)
	step := step{j, s.TakenAt, over}
	for _, at := range j.places(locks) {
		events = append(events, step.compare(j.locks[at], locks[at])...)
	}
	events = append(events, j.sessionEvents(s.TakenAt, over)...)
	events = append(events, j.cycleEvents(s)...)
	j.forget(s.TakenAt, locks)
	j.last, j.previous, j.locks, j.sessions = s.TakenAt, s, locks, sessions
	return events
}

// gapEvent also forgets since when locks are held: they may have been released meanwhile.
func (j *Journal) gapEvent(s *monitor.Snapshot) Event {
	e := j.event(Gap, s.TakenAt)
	e.Reason = j.gap
	j.gap, j.holds = "", nil
	return e
}

// index finds the locks of a snapshot, and the sessions that have a part in them.
func index(s *monitor.Snapshot) (map[place]*monitor.Lock, map[who]monitor.Session) {
	locks := make(map[place]*monitor.Lock, len(s.Locks))
	sessions := map[who]monitor.Session{}
	for i := range s.Locks {
		lock := &s.Locks[i]
		locks[placeOf(lock)] = lock
		for k := range lock.Holders {
			if id := whoIs(&lock.Holders[k].Session); id.pid != 0 {
				sessions[id] = lock.Holders[k].Session
			}
		}
		for k := range lock.Waiters {
			sessions[whoIs(&lock.Waiters[k].Session)] = lock.Waiters[k].Session
		}
	}
	for i := range s.OtherSessions {
		if id := whoIs(&s.OtherSessions[i]); id.pid != 0 {
			sessions[id] = s.OtherSessions[i]
		}
	}
	return locks, sessions
}

// remember notes who holds and waits now, and fills in what is known about the holders.
func (j *Journal) remember(s *monitor.Snapshot) {
	waiting := map[who]bool{}
	for _, waiter := range s.Waiters() {
		waiting[whoIs(&waiter.Session)] = true
	}
	holds := make(map[tenure]hold, len(j.holds))
	waits := map[claim]*monitor.Code{}
	for i := range s.Locks {
		lock := &s.Locks[i]
		at := placeOf(lock)
		for k := range lock.Holders {
			holder := &lock.Holders[k]
			id := tenure{at, whoIs(&holder.Session), holder.Mode}
			known, seen := j.holds[id]
			if !seen {
				known = hold{s.TakenAt, j.codeOf(claim{at, id.who}, holder.Session, waiting[id.who])}
			}
			holds[id] = known
			since := known.since
			holder.SeenSince, holder.Code = &since, known.code
		}
		for k := range lock.Waiters {
			waiter := &lock.Waiters[k]
			id := claim{at, whoIs(&waiter.Session)}
			if code := monitor.CodeOf(waiter.Session, monitor.CodeSeenWaiting); code != nil {
				waits[id] = code
			} else {
				waits[id] = j.waits[id]
			}
		}
	}
	j.holds, j.waits = holds, waits
}

// contend notes that a key is waited for.
func (j *Journal) contend(at place, when time.Time) {
	if _, known := j.contended[at]; known || len(j.contended) < mostKeys {
		j.contended[at] = when
	}
}

// places are those that events are reported of, in the order of their numbers.
func (j *Journal) places(now map[place]*monitor.Lock) []place {
	var places []place
	for at := range j.contended {
		if j.locks[at] != nil || now[at] != nil {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, comparePlaces)
	return places
}

// forget drops keys that had no waiters for a while; those that are held stay twice as long.
func (j *Journal) forget(now time.Time, locks map[place]*monitor.Lock) {
	for at, last := range j.contended {
		age := now.Sub(last)
		if age > 2*Linger || age > Linger && locks[at] == nil || age < -Linger {
			delete(j.contended, at)
		}
	}
}
