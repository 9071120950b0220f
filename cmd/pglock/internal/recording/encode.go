package recording

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Encoder makes members of snapshots. It must not be used from two goroutines at once.
type Encoder struct {
	queries bool
	now     func() (wall time.Time, elapsed time.Duration)

	last         times         // of the last snapshot
	lastInterval time.Duration // between the last two snapshots
	keyframeAt   time.Duration
	known        *known // nil if the next snapshot must be a keyframe
}

// times are the clocks at a snapshot: the server's, the recorder's, and a monotonic one.
type times struct {
	server, wall time.Time
	elapsed      time.Duration
}

// NewEncoder returns an encoder whose first snapshot is a keyframe. If queries is set it records the texts of statements,
// which can contain personal data.
func NewEncoder(queries bool) *Encoder {
	start := time.Now()
	return &Encoder{queries: queries, now: func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(start)
	}}
}

// Restart makes the next snapshot a keyframe, which can be read without what comes before it.
func (e *Encoder) Restart() { e.known = nil }

// Encoded is a member with a snapshot.
type Encoded struct {
	Info     Info
	Keyframe bool
	Member   []byte
}

// Snapshot encodes a snapshot, and the process IDs of sessions that were found to have ended.
func (e *Encoder) Snapshot(s *monitor.Snapshot, ended []int32) (Encoded, error) {
	now := times{server: s.TakenAt}
	now.wall, now.elapsed = e.now()
	m := summary(s)
	if m.Kind = memberChange; e.known == nil || now.elapsed-e.keyframeAt >= keyframeEvery || !e.known.paid() {
		m.Kind, e.known, e.keyframeAt = memberKeyframe, newKnown(e.queries), now.elapsed
	}
	var out lines
	out.add(snapshotLine{Kind: kindSnapshot, At: s.TakenAt.UTC().Truncate(time.Microsecond), Keyframe: m.Kind == memberKeyframe, Waiters: int(m.Waiters),
		Deadlocks: int(m.Deadlocks), Longest: m.info().Longest.Seconds(), Used: s.Capacity.Used, Advisory: s.Capacity.Advisory,
		Ended: ended})
	e.addJumps(&out, now)
	e.known.add(&out, s, m.Kind == memberKeyframe)
	member, err := out.pack(m)
	if err != nil {
		e.known = nil
		return Encoded{}, fmt.Errorf("record a snapshot: %w", err)
	}
	e.known.bytes += len(member)
	return Encoded{m.info(), m.Kind == memberKeyframe, member}, nil
}

// summary counts all waits of a snapshot, for locks of any type, apart from those that belong to normal work.
func summary(s *monitor.Snapshot) mark {
	m := mark{At: s.TakenAt.UnixMicro()}
	note := func(since *time.Time) {
		m.Waiters++
		if since != nil {
			m.Longest = max(m.Longest, s.TakenAt.Sub(*since).Microseconds())
		}
	}
	for wait := range s.Waits() {
		if !wait.Expected() {
			note(wait.WaitingSince)
		}
	}
	for i := range s.RowLocks {
		for j := range s.RowLocks[i].Waiters {
			if !s.RowLocks[i].Expected() {
				note(&s.RowLocks[i].Waiters[j].WaitingSince)
			}
		}
	}
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			m.Deadlocks++
		}
	}
	return m
}

// addJumps adds lines about the clocks that have jumped since the last snapshot.
func (e *Encoder) addJumps(out *lines, now times) {
	before := e.last
	e.last = now
	if before.server.IsZero() {
		return
	}
	passed := now.elapsed - before.elapsed
	// A server that is slow to answer reads its clock long before the recorder does.
	if by := now.server.Sub(before.server) - passed; by.Abs() >= jump+passed+e.lastInterval {
		out.add(clockLine{kindClock, "server", by.Seconds(), now.server.UTC(), now.wall.UTC()})
	}
	if by := now.wall.Round(0).Sub(before.wall.Round(0)) - passed; by.Abs() >= jump {
		out.add(clockLine{kindClock, "recorder", by.Seconds(), now.server.UTC(), now.wall.UTC()})
	}
	e.lastInterval = passed
}

// known is what was written since the keyframe.
type known struct {
	queries  bool
	server   string // the lines from kindServer on
	sessions map[sessionID]*knownSession
	locks    map[lockID]*knownLock
	nextID   int
	turn     int // counts snapshots
	elements int // see elementsPerByte
	bytes    int
}

// sessionID identifies a session within a snapshot.
type sessionID struct {
	pid           int32
	gid, database string
}

func idOf(s *monitor.Session) sessionID { return sessionID{s.PID, s.GID, s.Database} }

type lockID struct {
	database uint32
	key      pglock.KeyID
}

type knownSession struct {
	id, turn int
	session  monitor.Session
}

type knownLock struct {
	id, turn int
	lock     *monitor.Lock
}

func newKnown(queries bool) *known {
	return &known{queries: queries, sessions: map[sessionID]*knownSession{}, locks: map[lockID]*knownLock{}}
}

// paid reports whether the members since the keyframe are long enough for the work of reading them.
func (k *known) paid() bool { return k.elements <= elementsPerByte*k.bytes }

// add adds what has changed.
func (k *known) add(out *lines, s *monitor.Snapshot, keyframe bool) {
	k.turn++
	for session := range allSessions(s) {
		k.addSession(out, session)
	}
	for i := range s.Locks {
		k.addLock(out, &s.Locks[i])
	}
	k.addGone(out)
	k.addServer(out, s)
	if keyframe {
		for _, load := range s.Capacity.Top {
			load.Session = k.recorded(&load.Session)
			out.add(topLine{kindTop, load})
		}
	}
}

// allSessions yields the sessions of a snapshot, some of them repeatedly.
func allSessions(s *monitor.Snapshot) func(yield func(*monitor.Session) bool) {
	return func(yield func(*monitor.Session) bool) {
		for i := range s.Locks {
			for k := range s.Locks[i].Holders {
				if !yield(&s.Locks[i].Holders[k].Session) {
					return
				}
			}
			for k := range s.Locks[i].Waiters {
				if !yield(&s.Locks[i].Waiters[k].Session) {
					return
				}
			}
		}
		for i := range s.OtherWaits {
			if !yield(&s.OtherWaits[i].Session) {
				return
			}
		}
		for i := range s.OtherSessions {
			if !yield(&s.OtherSessions[i]) {
				return
			}
		}
	}
}

func (k *known) id() int {
	k.nextID++
	return k.nextID
}

// addSession adds a session if it is new or has changed.
func (k *known) addSession(out *lines, seen *monitor.Session) {
	old, there := k.sessions[idOf(seen)]
	switch {
	case !there:
		old = &knownSession{id: k.id()}
		k.sessions[idOf(seen)] = old
	case old.turn == k.turn:
		return
	}
	old.turn = k.turn
	before, now := old.session, k.recorded(seen)
	old.session = now
	if there && sameSession(before, now) {
		return
	}
	state := stateLine{kindState, old.id, now.State, utc(now.StateSince), utc(now.TransactionSince), now.WaitEventType, now.WaitEvent, nil}
	if now.Query != before.Query {
		state.Query = &now.Query
	}
	if before = withState(before, state); there && sameSession(before, now) {
		out.add(state)
		return
	}
	out.add(sessionLine{kindSession, old.id, now})
}

// withState returns a session with the fields of a stateLine.
func withState(s monitor.Session, l stateLine) monitor.Session {
	s.State, s.StateSince, s.TransactionSince = l.State, l.StateSince, l.TransactionSince
	s.WaitEventType, s.WaitEvent = l.WaitEventType, l.WaitEvent
	if l.Query != nil {
		s.Query = *l.Query
	}
	return s
}

// sameSession reports whether two states of a session are the same. Growing ages are no difference.
func sameSession(a, b monitor.Session) bool {
	if (a.XminAge == nil) == (b.XminAge == nil) && (a.XIDAge == nil) == (b.XIDAge == nil) {
		a.XminAge, a.XIDAge = b.XminAge, b.XIDAge
	}
	for _, t := range []struct{ a, b **time.Time }{{&a.StateSince, &b.StateSince}, {&a.TransactionSince, &b.TransactionSince}} {
		if sameTime(*t.a, *t.b) {
			*t.a = *t.b
		}
	}
	return reflect.DeepEqual(a, b)
}

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// recorded returns a session as it is recorded.
func (k *known) recorded(s *monitor.Session) monitor.Session {
	r := *s
	if !k.queries {
		withoutQuery(&r)
	}
	if len(r.Query) > maxQuery {
		r.Query = strings.ToValidUTF8(r.Query[:maxQuery], "") + "…"
	}
	readable(&r.Application, &r.User, &r.Database, &r.Query, &r.GID)
	return r
}

// addLock adds a lock if it is new or has changed.
func (k *known) addLock(out *lines, lock *monitor.Lock) {
	k.elements += 1 + len(lock.Holders) + waiterElements*len(lock.Waiters)
	id := lockID{lock.DatabaseOID, lock.ID()}
	old := k.locks[id]
	if old == nil {
		old = &knownLock{id: k.id()}
		k.locks[id] = old
	}
	old.turn = k.turn
	before := old.lock
	old.lock = lock
	if before != nil && sameLock(before, lock) {
		return
	}
	bare := *lock
	bare.Holders, bare.Waiters, bare.Names = nil, nil, slices.Clone(lock.Names)
	readable(&bare.Key, &bare.Database)
	for i := range bare.Names {
		readable(&bare.Names[i])
	}
	line := lockLine{Kind: kindLock, ID: old.id, Key: bare.Key, Database: bare.Database, DatabaseOID: lock.DatabaseOID}
	if plain, err := plainLock(bare.Key, bare.Database, bare.DatabaseOID); err != nil || !reflect.DeepEqual(plain, bare) {
		line.Lock = &label{Lock: bare} // it does not follow from its key
	}
	k.addParts(out, line, lock)
}

// sameLock reports whether a lock has not changed. What a journal adds to holders is not recorded.
func sameLock(a, b *monitor.Lock) bool {
	return a.Key == b.Key && a.Kind == b.Kind && a.Used == b.Used && a.Limit == b.Limit && a.Database == b.Database &&
		slices.Equal(a.Names, b.Names) && slices.Equal(a.Guesses, b.Guesses) &&
		slices.EqualFunc(a.Holders, b.Holders, func(a, b monitor.Holder) bool {
			return a.Mode == b.Mode && idOf(&a.Session) == idOf(&b.Session)
		}) &&
		slices.EqualFunc(a.Waiters, b.Waiters, func(a, b monitor.Waiter) bool {
			return a.Mode == b.Mode && idOf(&a.Session) == idOf(&b.Session) && sameTime(a.WaitingSince, b.WaitingSince) &&
				a.WaitingEstimated == b.WaitingEstimated && slices.Equal(a.BlockedBy, b.BlockedBy)
		})
}

// linePart is how many holders, waiters and blockers a line has at most, except that a waiter and its blockers are not
// divided.
const linePart = 1000

// addParts adds the line of a lock, in parts if it has many holders and waiters.
func (k *known) addParts(out *lines, line lockLine, lock *monitor.Lock) {
	n := 0
	grow := func(by int) {
		if n += by; n > linePart && n > by {
			out.add(line)
			line, n = lockLine{Kind: kindLock, ID: line.ID, More: true}, by
		}
	}
	for i := range lock.Holders {
		grow(1)
		line.Holders = append(line.Holders, holder{k.sessions[idOf(&lock.Holders[i].Session)].id, lock.Holders[i].Mode})
	}
	k.elements += derivingCosts(len(lock.Holders), len(lock.Waiters))
	derived := derivedBlockers(lock.Holders, lock.Waiters)
	for i := range lock.Waiters {
		w := k.waiter(&lock.Waiters[i])
		if derived[i] != nil && slices.Equal(derived[i], *w.BlockedBy) {
			w.BlockedBy = nil
			grow(1)
		} else {
			*w.BlockedBy = (*w.BlockedBy)[:min(len(*w.BlockedBy), maxBlockers)]
			grow(1 + len(*w.BlockedBy))
		}
		line.Waiters = append(line.Waiters, w)
	}
	out.add(line)
}

func (k *known) waiter(w *monitor.Waiter) waiter {
	blockers := []monitor.Blocker(slices.Clip(w.BlockedBy))
	if blockers == nil {
		blockers = []monitor.Blocker{}
	}
	return waiter{k.sessions[idOf(&w.Session)].id, w.Mode, utc(w.WaitingSince), w.WaitingEstimated, &blockers}
}

// addGone adds what was there before this snapshot, and no longer is.
func (k *known) addGone(out *lines) {
	gone := goneLine{Kind: kindGone}
	for id, session := range k.sessions {
		if session.turn != k.turn {
			gone.Sessions = append(gone.Sessions, session.id)
			delete(k.sessions, id)
		}
	}
	for id, lock := range k.locks {
		if lock.turn != k.turn {
			gone.Locks = append(gone.Locks, lock.id)
			delete(k.locks, id)
		}
	}
	slices.Sort(gone.Sessions)
	slices.Sort(gone.Locks)
	for part := range slices.Chunk(gone.Sessions, linePart) {
		out.add(goneLine{Kind: kindGone, Sessions: part})
	}
	for part := range slices.Chunk(gone.Locks, linePart) {
		out.add(goneLine{Kind: kindGone, Locks: part})
	}
}

// addServer adds the fields that are not about single advisory locks, if one of them has changed.
func (k *known) addServer(out *lines, s *monitor.Snapshot) {
	var l lines
	server := serverLine{Kind: kindServer, Snapshot: *s}
	server.Capacity.Used, server.Capacity.Advisory, server.Capacity.Top = 0, 0, nil // in other lines
	l.add(server)
	for _, cycle := range s.Cycles {
		l.add(cycleLine{kindCycle, cycle})
	}
	for i := range s.OtherWaits {
		w := k.waiter(&s.OtherWaits[i].Waiter)
		*w.BlockedBy = (*w.BlockedBy)[:min(len(*w.BlockedBy), maxBlockers)]
		l.add(otherWaitLine{kindOtherWait, s.OtherWaits[i].Lock, w})
	}
	for i := range s.OtherSessions {
		l.add(otherSessionLine{kindOtherSession, k.sessions[idOf(&s.OtherSessions[i])].id})
	}
	for i := range s.RowLocks {
		row := recordedRow(s.RowLocks[i])
		l.add(rowLockLine{kindRowLock, row})
		k.elements += rowElements(&row)
	}
	k.elements += len(s.Cycles) + len(s.OtherWaits) + len(s.OtherSessions)
	if text := l.String(); text != k.server {
		k.server = text
		out.WriteString(text)
	}
	if out.err == nil {
		out.err = l.err
	}
}
