package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// oracle compares what the server has granted with what callers may believe. The simulation's mu guards it.
type oracle struct {
	s       *simulation
	beliefs []*belief
	wants   map[place]int        // calls in progress and locks that have not been unlocked
	unsure  map[place]time.Time  // when a call has ended without an answer of the server
	had     map[place][]*process // the sessions that were granted the key, the latest last
}

// place is a key in one Locker.
type place struct {
	locker int
	key    driver.KeyID
}

// belief is a Lock that its caller may believe to hold.
type belief struct {
	caller  *caller
	lock    *pglock.Lock
	keys    []driver.KeyID
	shared  bool
	carries map[driver.KeyID][]*process // the sessions that may carry the keys: one, or for a shared key several
}

func newOracle(s *simulation) *oracle {
	return &oracle{s: s, wants: map[place]int{}, unsure: map[place]time.Time{}, had: map[place][]*process{}}
}

// told reports whether a caller that looks learns that the lock is lost.
func (b *belief) told() bool {
	select {
	case <-b.lock.Done():
		return true
	default:
		return b.lock.Err() != nil
	}
}

// The client begins to read from an idle session a millisecond after the last answer.
const slack = 2 * time.Millisecond

// mayBeLate reports whether the caller may believe in a key that is not held any more: the server has ended the session,
// and the client could not know that yet.
func (b *belief) mayBeLate(key driver.KeyID) bool {
	return slices.ContainsFunc(b.carries[key], func(p *process) bool {
		if p.ended != byServer && p.ended != broken || time.Since(p.endedAt) > b.caller.s.lease {
			return false
		}
		p.link.mu.Lock()
		defer p.link.mu.Unlock()
		return p.link.noticed.IsZero() || time.Since(p.link.noticed) <= slack
	})
}

// isHeld reports whether a session that may carry the key holds it, other than except.
func (b *belief) isHeld(key driver.KeyID, except *process) bool {
	return slices.ContainsFunc(b.carries[key], func(p *process) bool {
		return p != except && b.caller.s.server.locks.holds(key, holding{p, b.shared})
	})
}

// granted is called when the server grants a key.
func (o *oracle) granted(key driver.KeyID, p *process, shared bool) {
	at := place{p.link.host.locker, key}
	o.had[at] = append(o.had[at], p)
	o.s.trace("process %d of Locker %d gets %d, shared: %v", p.pid, at.locker, key.Number, shared)
	o.s.count.grants++
	if o.wants[at] == 0 && !o.isUnsure(at) && p.link.ends[0].isOpen() {
		o.s.wrong("Locker %d is granted %d, for which no caller asks", at.locker, key.Number)
	}
	for _, b := range o.beliefs {
		if slices.Contains(b.keys, key) && !(b.shared && shared) && !b.mayBeLate(key) && !b.told() {
			o.s.wrong("process %d is granted %d, which %v believes to hold", p.pid, key.Number, b.caller)
		}
	}
}

// sessionEnds is called before the locks of a session are freed.
func (o *oracle) sessionEnds(p *process) {
	if p.ended == byClient || p.ended == silent {
		o.mustBeTold(p)
		return
	}
	time.AfterFunc(o.s.lease, func() { o.check(p) })
}

// noticed is called when the client can know that the server has ended the session.
func (o *oracle) noticed(p *process) {
	if p != nil {
		time.AfterFunc(slack, func() { o.check(p) })
	}
}

func (o *oracle) check(p *process) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.mustBeTold(p)
}

// mustBeTold checks that no caller believes in a lock that the session alone has carried.
func (o *oracle) mustBeTold(p *process) {
	for _, b := range o.beliefs {
		for _, key := range b.keys {
			if slices.Contains(b.carries[key], p) && !b.isHeld(key, p) && !b.mayBeLate(key) && !b.told() {
				o.s.wrong("%v still believes to hold %d, by process %d, which has ended %s", b.caller, key.Number, p.pid, p.ended)
				return
			}
		}
	}
}

func (o *oracle) isUnsure(at place) bool {
	since, unsure := o.unsure[at]
	return unsure && time.Since(since) < 2*o.s.lease+driver.ReleaseTimeout
}

// asks is called when a caller begins a call.
func (o *oracle) asks(c *caller, keys []driver.KeyID) {
	for _, key := range keys {
		o.wants[place{c.locker, key}]++
	}
}

// gets is called when a caller has got a lock.
func (o *oracle) gets(c *caller, lock *pglock.Lock, keys []driver.KeyID, shared bool) {
	b := &belief{caller: c, lock: lock, keys: keys, shared: shared, carries: map[driver.KeyID][]*process{}}
	for _, key := range keys {
		had := o.had[place{c.locker, key}]
		if !shared { // a shared key may be on another session than the last that was asked for it
			had = had[max(0, len(had)-1):]
		}
		b.carries[key] = had
	}
	o.mustHold(b)
	for _, other := range o.beliefs {
		for _, key := range keys {
			if slices.Contains(other.keys, key) && !(shared && other.shared) && !other.mayBeLate(key) && !b.mayBeLate(key) && !other.told() && !b.told() {
				o.s.wrong("%v and %v both believe to hold %d", c, other.caller, key.Number)
			}
		}
	}
	o.beliefs = append(o.beliefs, b)
}

// mustHold checks that the server holds what a caller believes to hold.
func (o *oracle) mustHold(b *belief) {
	for _, key := range b.keys {
		if !b.isHeld(key, nil) && !b.mayBeLate(key) && !b.told() {
			o.s.wrong("%v believes to hold %d, which no session holds for it", b.caller, key.Number)
		}
	}
}

// looks is called while a caller works.
func (o *oracle) looks(lock *pglock.Lock) {
	for _, b := range o.beliefs {
		if b.lock == lock {
			o.mustHold(b)
		}
	}
}

// unlocks is called before a caller unlocks, or when it has been told of a loss.
func (o *oracle) unlocks(lock *pglock.Lock) {
	o.beliefs = slices.DeleteFunc(o.beliefs, func(b *belief) bool { return b.lock == lock })
}

// done is called when a call has failed, or a lock has been unlocked. After an answer of the server nothing may be left,
// unless other callers of the Locker want the key.
func (o *oracle) done(c *caller, keys []driver.KeyID, err error, clean bool) {
	for _, key := range keys {
		at := place{c.locker, key}
		if o.wants[at]--; o.wants[at] > 0 {
			if !clean || errors.Is(err, pglock.ErrUnavailable) {
				o.unsure[at] = time.Now()
			}
			continue
		}
		switch {
		case !clean, errors.Is(err, pglock.ErrUnavailable):
			o.unsure[at] = time.Now()
		case !o.isUnsure(at):
			o.nothingLeft(at, err)
		}
	}
}

// nothingLeft checks that no session of a Locker holds a key or waits for it. Sessions do not count that the client has
// closed, or of whose end it knows.
func (o *oracle) nothingLeft(at place, err error) {
	l := o.s.server.locks.of(at.key)
	left := func(p *process) bool { return p.link.host.locker == at.locker && p.link.ends[0].isOpen() }
	for _, h := range l.held {
		if left(h.by) {
			o.s.wrong("after %v process %d of Locker %d still holds %d", err, h.by.pid, at.locker, at.key.Number)
		}
	}
	for _, w := range l.queue {
		if left(w.by) {
			o.s.wrong("after %v process %d of Locker %d still waits for %d", err, w.by.pid, at.locker, at.key.Number)
		}
	}
}

// opened checks that a Locker has no more mux sessions than it may have. Sessions do not count of whose end it knows.
func (o *oracle) opened(p *process) {
	n := 0
	for _, other := range o.s.server.processes {
		if other.carries && other.link.host == p.link.host && other.link.ends[0].isOpen() {
			n++
		}
	}
	if most := o.s.sessions[p.link.host.locker]; n > most {
		o.s.wrong("Locker %d has %d mux sessions, and may have %d", p.link.host.locker, n, most)
	}
}
