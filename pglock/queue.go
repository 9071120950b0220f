package pglock

import (
	"context"
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file is the queue among the goroutines of one process. The groups of the keys guard it.
//
// Each key that is in use here has an entry. A request for one key waits there, first come first served, until nothing that
// this process holds or asks for conflicts with it. Then it may ask the backend, where it competes with other processes; or
// it may reuse the hold of this process: one that the last holder hands off, or one that others share. A request for several
// keys is made of one for each: see all.go.
//
// So at most one request of a process asks for a key at a time, and none while a release is not confirmed. Requests behind it
// cost the server nothing. A process has one hold of a shared key, with a Lock for each holder. A newcomer, when the limit of
// handoffs does not let it join, asks the backend for the key beside that hold ([driver.Request]). A grant says that no writer
// is in line: then the newcomer joins the hold, from which the limit counts anew, and gives back what it has got. If the hold has
// ended meanwhile, by its last Unlock or by a loss, what it has got is the new hold; if it has got nothing but the answer, it
// begins again.
//
// A shared try waits for the answer to one that is asking, or releasing: for the server, and not for holders. It is refused as
// soon as the one that asks has been, and waits.

// entry is the state of one key in this process.
type entry struct {
	group   *group
	id      identity
	queue   []*request // waiting here, in the order of their arrival
	writers int        // exclusive ones among them

	// What conflicts with later requests: the hold, a request that asks the backend, and grants that are being released. They are
	// all shared, or there is one exclusive.
	hold      *hold
	busy      int // all but the hold
	exclusive bool
	writer    bool // an exclusive request asks the backend, and will wait there
	waits     bool // a request asks the backend, and waits there

	answers int // of the server: a hold, or that others have the key
	asked   int // answers, when it was last asked
}

// identity identifies a lock: the number of its key and, if the backend distinguishes locks by their names
// ([driver.NamedLocks]), the name.
type identity struct {
	KeyID
	name string
}

func (l *Locker) identityOf(key driver.Key) identity {
	if l.byName {
		return identity{key.KeyID, key.Name}
	}
	return identity{KeyID: key.KeyID}
}

// inOrder returns the keys of the locks, each once, in the order in which every process takes them.
func (l *Locker) inOrder(keys []Key) []Key {
	if !l.byName {
		return inOrder(keys)
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return a.k.Compare(b.k) })
	return slices.CompactFunc(keys, func(a, b Key) bool { return a.k.Compare(b.k) == 0 })
}

// decision is what a request may do at an entry.
type decision int

const (
	waitHere decision = iota
	askBackend
	shareHold
)

// decideLocked decides what r, the first in e's queue, may do.
func (l *Locker) decideLocked(e *entry, r *request) decision {
	switch {
	case e.hold == nil && e.busy == 0:
		return askBackend
	case e.exclusive || !r.config.shared:
		return waitHere
	case e.hold != nil && l.mayHandOffLocked(e.hold):
		return shareHold
	case e.busy > 0:
		return waitHere // for the answer of the backend
	}
	return askBackend
}

// queue brings r to the entry of its key, and reports whether r must wait there. A request that does not wait (try) fails if it
// would have to wait for a holder. After an error r is not at the entry.
func (l *Locker) queue(r *request) (waits bool, err error) {
	id := l.identityOf(r.keys[0])
	g := &l.groups[groupOf(id.KeyID)]
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.closed.Load() {
		return false, ErrClosed
	}
	e := g.entries[id]
	if e == nil {
		e = g.addLocked(id)
	}
	v := waitHere
	if len(e.queue) == 0 || r.try && r.config.shared && e.writers == 0 {
		v = l.decideLocked(e, r)
	}
	if v == waitHere && r.try && (!r.config.shared || e.writers > 0 || e.exclusive || e.waits) {
		return false, ErrNotAcquired
	}
	r.entry = e
	if v != waitHere {
		l.applyLocked(e, r, v)
		return false, nil
	}
	r.ready, r.queued, r.before = make(chan struct{}), true, e.asked
	e.queue = append(e.queue, r)
	if !r.config.shared {
		e.writers++
	}
	return true, nil
}

// applyLocked carries out a decision other than waitHere.
func (l *Locker) applyLocked(e *entry, r *request, v decision) {
	if v == shareHold {
		r.lock = l.shareLocked(e.hold, r)
		return
	}
	if e.hold != nil {
		r.beside = e.hold.grant
	}
	e.busy++
	e.asked = e.answers
	e.exclusive = !r.config.shared
	e.writer = e.exclusive && !r.try
}

// wakeQueueLocked wakes requests that need not wait at the entry any more, and forgets an entry that is not needed.
func (l *Locker) wakeQueueLocked(e *entry) {
	for len(e.queue) > 0 {
		r := e.queue[0]
		v := l.decideLocked(e, r)
		if v == waitHere {
			return
		}
		e.dequeueLocked(r)
		l.applyLocked(e, r, v)
		close(r.ready)
	}
	if e.hold == nil && e.busy == 0 {
		e.group.removeLocked(e)
		l.drainLocked(e.group)
	}
}

// dequeueLocked removes r, which waits there, from the queue.
func (e *entry) dequeueLocked(r *request) {
	removeOne(&e.queue, r)
	r.queued, r.behind = false, e.answers > r.before
	if !r.config.shared {
		e.writers--
	}
}

// refuseTriesLocked refuses the tries that wait for an answer: the lock is held elsewhere, and the request that asks waits for it.
func (e *entry) refuseTriesLocked() {
	for _, r := range slices.Clone(e.queue) {
		if r.try {
			e.dequeueLocked(r)
			r.entry, r.refused = nil, ErrNotAcquired
			close(r.ready)
		}
	}
}

// withdrawLocked takes r out of the queue at its entry, and reports whether it waited there.
func (l *Locker) withdrawLocked(r *request) bool {
	if !r.queued {
		return false
	}
	e := r.entry
	r.entry = nil
	e.dequeueLocked(r)
	l.wakeQueueLocked(e)
	return true
}

// leave removes r from its entry.
func (l *Locker) leave(r *request) {
	l.lock(r.groups)
	defer l.unlock(r.groups)
	l.withdrawLocked(r)
	if e := r.entry; e != nil {
		e.writer, e.waits = false, false
		l.freeLocked(e)
	}
}

// freeLocked ends what keeps e busy.
func (l *Locker) freeLocked(e *entry) {
	e.busy--
	l.wakeQueueLocked(e)
}

// leaveAfter is leave after an error, as soon as the backend knows that the key is not locked.
func (l *Locker) leaveAfter(r *request, err error) {
	driver.WhenSettled(err, func() { l.leave(r) })
}

// giveBack unlocks a Lock that no caller gets.
func (l *Locker) giveBack(lock *Lock) error {
	if lock.end(ErrUnlocked) {
		return l.drop(context.Background(), lock)
	}
	return nil
}

// removeOne removes x from the list, and reports whether it was there.
func removeOne[T comparable](list *[]T, x T) bool {
	i := slices.Index(*list, x)
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}
