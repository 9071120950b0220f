package recording

import (
	"cmp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// state is what the lines since the keyframe say about the server.
type state struct {
	used   snapshotLine
	server monitor.Snapshot
	top    []monitor.SessionLoad
	others []otherWaitLine
	rest   []int // the IDs of the OtherSessions

	rowElements int // the work of the locks in rows

	sessions map[int]knownText
	locks    map[int]*lockState
	sorted   []*lockState // the locks, and some that are gone
	added    []*lockState // locks that are not yet in sorted

	holders, waiters int // of all locks
	toDerive         int // see lockState
	// What the parts cost in memory.
	serverCost, topCost, sessionsCost, locksCost int
}

// knownText is a session, and the length of its line.
type knownText struct {
	session *monitor.Session
	size    int
}

// lockState is a lock with the IDs of its sessions.
type lockState struct {
	lock     monitor.Lock // without holders and waiters
	holders  []holder
	waiters  []waiter
	derived  [][]monitor.Blocker // the blockers of the waiters; nil until they are needed
	toDerive int                 // the work of deriving them, in parties to look at
	cost     int
	gone     bool
}

func newState() *state {
	return &state{sessions: map[int]knownText{}, locks: map[int]*lockState{}}
}

func (s *state) cost() int { return s.serverCost + s.topCost + s.sessionsCost + s.locksCost }

// elements is the work of making a snapshot.
func (s *state) elements() int {
	return len(s.locks) + s.holders + waiterElements*s.waiters + len(s.others) + len(s.rest) + len(s.server.Cycles) + s.rowElements + s.toDerive/4
}

// line applies a line. It skips unknown kinds.
func (s *state) line(kind string, line []byte) (err error) {
	switch kind {
	case kindSnapshot:
		s.used, err = read[snapshotLine](line)
		at := &s.used.At
		err = cmp.Or(err, timesInRange(&at))
		s.used.At = *at
	case kindServer:
		var l serverLine
		l, err = read[serverLine](line)
		s.server, s.others, s.rest, s.serverCost = l.Snapshot, []otherWaitLine{}, []int{}, 2*len(line)
		s.server.Cycles, s.server.RowLocks, s.rowElements = []monitor.Cycle{}, []monitor.RowLock{}, 0
	case kindCycle:
		var l cycleLine
		l, err = read[cycleLine](line)
		err = cmp.Or(err, timesInRange(&l.Since))
		s.server.Cycles = append(s.server.Cycles, l.Cycle)
		s.serverCost += genericCost * len(line)
	case kindOtherWait:
		var l otherWaitLine
		l, err = read[otherWaitLine](line)
		err = cmp.Or(err, timesInRange(&l.Since))
		s.others = append(s.others, l)
		s.serverCost += waiterCost + genericCost*len(line)
	case kindOtherSession:
		var l otherSessionLine
		l, err = read[otherSessionLine](line)
		s.rest = append(s.rest, l.Session)
		s.serverCost += holderCost
	case kindRowLock:
		err = s.addRow(line)
	case kindTop:
		var l topLine
		l, err = read[topLine](line)
		err = cmp.Or(err, sessionInRange(&l.Session))
		s.top = append(s.top, l.SessionLoad)
		s.topCost += topCost + 2*len(line)
	case kindGone:
		var l goneLine
		l, err = read[goneLine](line)
		s.remove(l)
	case kindSession:
		var l sessionLine
		l, err = read[sessionLine](line)
		err = cmp.Or(err, sessionInRange(&l.Session))
		s.setSession(l.ID, knownText{&l.Session, len(line)})
	case kindState:
		err = s.changeSession(line)
	case kindLock:
		err = s.setLock(line)
	}
	return err
}

// sessionInRange checks the times of a session.
func sessionInRange(s *monitor.Session) error {
	return timesInRange(&s.PreparedAt, &s.StateSince, &s.Since, &s.TransactionSince)
}

// timesInRange refuses times that cannot be written as JSON in every time zone, and sets the others to UTC.
func timesInRange(times ...**time.Time) error {
	for _, t := range times {
		if *t == nil {
			continue
		}
		u := (*t).UTC()
		if *t = &u; u.Year() < 1 || u.Year() > 9998 {
			return corrupt("a time out of range")
		}
	}
	return nil
}

func (s *state) setSession(id int, known knownText) {
	if old, there := s.sessions[id]; there {
		s.sessionsCost -= sessionCost + 2*old.size
	}
	s.sessionsCost += sessionCost + 2*known.size
	s.sessions[id] = known
}

func (s *state) changeSession(line []byte) error {
	l, err := read[stateLine](line)
	if err != nil {
		return err
	}
	old, there := s.sessions[l.Session]
	if !there {
		return corrupt("a change of session %d, which there is not", l.Session)
	}
	changed, size := withState(*old.session, l), old.size
	if l.Query != nil {
		size += len(*l.Query) - len(old.session.Query)
	}
	s.setSession(l.Session, knownText{&changed, size})
	return sessionInRange(&changed)
}

func (s *state) remove(l goneLine) {
	for _, id := range l.Sessions {
		if old, there := s.sessions[id]; there {
			s.sessionsCost -= sessionCost + 2*old.size
			delete(s.sessions, id)
		}
	}
	for _, id := range l.Locks {
		if lock := s.locks[id]; lock != nil {
			s.forget(lock)
			lock.gone = true
			delete(s.locks, id)
		}
	}
}

// forget takes a lock out of the sums.
func (s *state) forget(l *lockState) {
	s.holders, s.waiters, s.toDerive = s.holders-len(l.holders), s.waiters-len(l.waiters), s.toDerive-l.toDerive
	s.locksCost -= l.cost
}

// setLock replaces a lock, or adds to its holders and waiters.
func (s *state) setLock(line []byte) error {
	l, err := read[lockLine](line)
	if err != nil {
		return err
	}
	known := s.locks[l.ID]
	switch {
	case l.More && known == nil:
		return corrupt("more of lock %d, which there is not", l.ID)
	case known == nil:
		known = &lockState{}
		s.locks[l.ID], s.added = known, append(s.added, known)
		if len(s.added) > 2*len(s.locks)+100 { // a file may add and remove them without a snapshot
			s.added = slices.DeleteFunc(s.added, func(l *lockState) bool { return l.gone })
		}
	default:
		s.forget(known)
	}
	if !l.More {
		*known = lockState{cost: lockCost}
		if known.lock, err = l.label(); err != nil {
			return err
		}
	}
	known.derived = nil
	known.cost += 2 * len(line)
	known.addHolders(l.Holders)
	err = known.addWaiters(l.Waiters)
	s.holders, s.waiters, s.toDerive = s.holders+len(known.holders), s.waiters+len(known.waiters), s.toDerive+known.toDerive
	s.locksCost += known.cost
	return err
}

// label returns the lock without holders and waiters.
func (l *lockLine) label() (monitor.Lock, error) {
	if l.Lock == nil {
		return plainLock(l.Key, l.Database, l.DatabaseOID)
	}
	return l.Lock.Lock, nil
}

func (l *lockState) addHolders(holders []holder) {
	l.holders = append(l.holders, holders...)
	l.cost += len(holders) * holderCost
	if len(l.waiters) > 0 {
		l.willDerive(len(holders) * len(l.waiters))
	}
}

func (l *lockState) addWaiters(waiters []waiter) error {
	for _, w := range waiters {
		if err := timesInRange(&w.Since); err != nil {
			return err
		}
		if w.BlockedBy == nil {
			l.willDerive(len(l.holders) + len(l.waiters))
		} else {
			l.cost += blockerCost * len(*w.BlockedBy)
		}
		l.waiters = append(l.waiters, w)
		l.cost += waiterCost
	}
	return nil
}

func (l *lockState) willDerive(parties int) {
	l.toDerive += parties
	l.cost += blockerCost * parties
}

// snapshot returns the snapshot of the present state.
func (s *state) snapshot(maxCost int) (*monitor.Snapshot, error) {
	r := &result{sessions: s.sessions, holders: make([]monitor.Holder, 0, s.holders), waiters: make([]monitor.Waiter, 0, s.waiters)}
	out := s.server
	out.TakenAt = s.used.At
	out.Capacity.Used, out.Capacity.Advisory, out.Capacity.Top = s.used.Used, s.used.Advisory, slices.Clone(s.top)
	s.sort()
	out.Locks = make([]monitor.Lock, 0, len(s.sorted))
	for _, l := range s.sorted {
		out.Locks = append(out.Locks, r.lock(l))
	}
	s.toDerive = 0
	out.OtherWaits, out.OtherSessions = []monitor.OtherWait{}, []monitor.Session{}
	for i := range s.others {
		out.OtherWaits = append(out.OtherWaits, monitor.OtherWait{Lock: s.others[i].Lock, Waiter: r.waiter(&s.others[i].waiter)})
	}
	for _, id := range s.rest {
		out.OtherSessions = append(out.OtherSessions, r.session(id))
	}
	if r.size > maxCost {
		r.err = cmp.Or(r.err, tooLarge(maxCost))
	}
	return &out, r.err
}

// sort merges the locks that have been added with the others, in the order of a snapshot.
func (s *state) sort() {
	order := func(a, b *lockState) int {
		return cmp.Or(trueFirst(a.lock.Database == s.server.Database, b.lock.Database == s.server.Database),
			cmp.Compare(a.lock.Database, b.lock.Database), cmp.Compare(a.lock.DatabaseOID, b.lock.DatabaseOID),
			a.lock.ID().Compare(b.lock.ID()))
	}
	if len(s.added) == 0 && len(s.sorted) == len(s.locks) {
		return
	}
	slices.SortFunc(s.added, order)
	merged := make([]*lockState, 0, len(s.locks))
	for len(s.sorted)+len(s.added) > 0 {
		from := &s.sorted
		if len(s.sorted) == 0 || len(s.added) > 0 && order(s.added[0], s.sorted[0]) < 0 {
			from = &s.added
		}
		if l := (*from)[0]; !l.gone {
			merged = append(merged, l)
		}
		*from = (*from)[1:]
	}
	s.sorted, s.added = merged, nil
}

// trueFirst sorts true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// result is a snapshot that is being made.
type result struct {
	sessions map[int]knownText
	holders  []monitor.Holder // of all locks
	waiters  []monitor.Waiter
	size     int // of the texts of all parties, as in JSON
	err      error
}

func (r *result) session(id int) monitor.Session {
	known, there := r.sessions[id]
	if !there {
		r.err = cmp.Or(r.err, corrupt("a lock of session %d, which there is not", id))
		return monitor.Session{}
	}
	r.size += known.size
	return *known.session
}

func (r *result) waiter(w *waiter) monitor.Waiter {
	out := monitor.Waiter{Mode: w.Mode, WaitingSince: w.Since, WaitingEstimated: w.Estimated, Session: r.session(w.Session)}
	if w.BlockedBy != nil {
		out.BlockedBy = *w.BlockedBy
		out.Ahead = out.BlockedBy.Soft()
	}
	return out
}

func (r *result) lock(l *lockState) monitor.Lock {
	out := l.lock
	h, w := len(r.holders), len(r.waiters)
	for _, holder := range l.holders {
		r.holders = append(r.holders, monitor.Holder{Mode: holder.Mode, Session: r.session(holder.Session)})
	}
	for i := range l.waiters {
		r.waiters = append(r.waiters, r.waiter(&l.waiters[i]))
	}
	out.Holders, out.Waiters = slices.Clip(r.holders[h:]), slices.Clip(r.waiters[w:])
	l.derive(&out)
	return out
}

// derive sets the blockers that are not recorded. Snapshots share them until the lock changes.
func (l *lockState) derive(out *monitor.Lock) {
	if l.derived == nil {
		l.derived = derivedBlockers(out.Holders, out.Waiters) // the writer has checked that they are right
		for i := range l.derived {
			if l.derived[i] == nil { // in a file of another writer
				l.derived[i] = []monitor.Blocker{}
			}
		}
		l.toDerive = 0
	}
	for i := range out.Waiters {
		if l.waiters[i].BlockedBy == nil {
			out.Waiters[i].BlockedBy = l.derived[i]
			out.Waiters[i].Ahead = out.Waiters[i].BlockedBy.Soft()
		}
	}
}
