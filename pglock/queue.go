package pglock

import (
	"context"
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file is the queue among the goroutines of one process. The mu of a key's shard guards the key's entry; requests
// and holds are guarded by the mu of each of their keys' shards.
//
// Each key that is in use here has an entry. A request passes through the entries of its keys in the keys' order. At
// each it waits, first come first served, until nothing that this process holds or asks for conflicts with it. Then it
// may ask the backend, where it competes with other processes; or, if it wants one key only, it may reuse a hold of
// this process: one that the last holder hands off, or one that others share.
//
// So at most one exclusive request of a process asks for a key at a time. Requests behind it cost the server nothing.

// entry is the state of one key in this process.
type entry struct {
	shard   *shard
	id      identity
	queue   []*request // waiting here, in the order of their arrival
	writers int        // exclusive ones among them

	// What conflicts with later requests: Locks that are held, requests that ask the backend, and holds that are being
	// released. They are all shared, or there is one exclusive.
	held, busy int
	exclusive  bool

	joinable *hold // the last shared hold granted; more may join it

	holds []*hold // grants of the backend whose first key this is

	next *entry // the entry of another lock whose key has the same number
}

// request is one call of Lock, TryLock, LockAll or TryLockAll. It is reused when the call has returned.
type request struct {
	keys   []driver.Key // in order
	try    bool         // never waits
	config lockConfig
	token  driver.Token
	since  driver.Instant
	caller context.Context // of the call, or derived from it by the Observer
	cancel func(error)     // ends the wait for the backend, when Close does
	waited bool            // it did not get the lock at once
	asked  bool            // it waited for the backend
	wait   *wait           // for the backend, in waits; nil if no other call can have to wait for it

	entries []*entry      // of the keys that the request has reached
	shards  shardSet      // of all of them
	ready   chan struct{} // closed when the wait at the last of them is over
	lock    *Lock         // the result, if it need not ask the backend
	err     error         // or why it failed
}

// home is the shard where r is counted.
func (r *request) home() *shard { return r.entries[0].shard }

// hold is a grant of the backend for one request, and its Locks: several if they are shared.
type hold struct {
	locker *Locker
	grant  driver.Grant
	entry  [1]*entry // of its key, or
	multi  *multiKey
	shared bool
	over   bool     // lost or released
	kept   bool     // it is not handed off: its backend does not keep guarded transactions of two Locks in order
	index  uint8    // of its home
	why    uint8    // why it was lost, in lostReasons
	passed int32    // how often it was handed off or joined
	locks  []*Lock  // several if they are shared
	one    [1]*Lock // room for the usual one

	first Lock // the first Lock on the hold, so that both are one allocation
}

// multiKey has the keys of a hold with more than one, and their entries.
type multiKey struct {
	keys    []driver.Key
	entries []*entry
	shards  shardSet
}

// home is the shard where h is counted.
func (h *hold) home() *shard { return &h.locker.shards[h.index] }

// newHold returns a hold for r.
func (l *Locker) newHold(r *request) *hold {
	h := &hold{locker: l, shared: r.config.shared, index: r.home().index}
	h.locks = h.one[:0]
	if len(r.keys) == 1 {
		h.entry[0] = r.entries[0]
	} else {
		h.multi = &multiKey{slices.Clone(r.keys), slices.Clone(r.entries), r.shards}
	}
	return h
}

// entries returns the entries of the hold's keys. They exist while the hold has Locks or is being released.
func (h *hold) entries() []*entry {
	if h.multi != nil {
		return h.multi.entries
	}
	return h.entry[:]
}

// shards returns the shards of the hold's keys.
func (h *hold) shards() shardSet {
	if h.multi != nil {
		return h.multi.shards
	}
	return shardSet(0).with(h.index)
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
	case e.held+e.busy == 0:
		return askBackend
	case e.exclusive || !r.config.shared:
		return waitHere
	case len(r.keys) == 1 && e.joinable != nil && len(e.joinable.locks) > 0 && l.mayHandOffLocked(e.joinable):
		return shareHold
	case e.busy > 0 && !r.try:
		return waitHere // for the shared hold that is being asked for, to join it
	}
	return askBackend
}

// enterLocked brings r to the entry of its next key and reports whether r must wait there. A request that does not wait (try)
// fails if it would have to wait.
func (l *Locker) enterLocked(s *shard, r *request, id identity) (wait bool) {
	e := s.entryLocked(id)
	r.entries = append(r.entries, e)
	blocked := len(e.queue) > 0 && !(r.try && r.config.shared && e.writers == 0)
	v := waitHere
	if !blocked {
		v = l.decideLocked(e, r)
	}
	switch {
	case v != waitHere:
		l.applyLocked(e, r, v)
		return false
	case r.try:
		r.err = ErrNotAcquired
		return false
	}
	r.ready = make(chan struct{})
	e.queue = append(e.queue, r)
	if !r.config.shared {
		e.writers++
	}
	return true
}

// applyLocked carries out a decision other than waitHere.
func (l *Locker) applyLocked(e *entry, r *request, v decision) {
	if v == shareHold {
		e.held++
		l.shareLocked(e.joinable, r)
		return
	}
	e.busy++
	e.exclusive = !r.config.shared
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
	if e.held+e.busy == 0 {
		e.shard.forgetLocked(e)
	}
}

// dequeueLocked removes r from the queue, and reports whether it was there.
func (e *entry) dequeueLocked(r *request) bool {
	if !removeOne(&e.queue, r) {
		return false
	}
	if !r.config.shared {
		e.writers--
	}
	return true
}

// leaveLocked removes r, which is busy at all its entries, from them.
func (l *Locker) leaveLocked(r *request) {
	for _, e := range r.entries {
		e.busy--
		l.wakeQueueLocked(e)
	}
}

// admitLocked makes r, which was busy at all its entries, the first holder of h.
func (l *Locker) admitLocked(r *request, h *hold) {
	for _, e := range r.entries {
		e.busy--
		e.held++
		if h.shared && h.multi == nil {
			e.joinable = h
		}
	}
	r.entries[0].holds = append(r.entries[0].holds, h)
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
