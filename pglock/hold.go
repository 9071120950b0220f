package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// hold is what a request has got from the backend, and its Locks: several if they are shared. The groups of its keys guard it.
type hold struct {
	locker  *Locker
	grant   [1]driver.Grant // of its key
	entry   [1]*entry       // of that
	several *severalKeys    // instead of the two; nil for one key
	why     LostReason      // it was lost
	locks   []*Lock
	room    [1]*Lock // for the usual one
	whole   *hold    // that has its grant now; nil if it has it itself
	open    int32    // grants whose releases are not confirmed, once it is over
	passed  int32    // how often it was handed off or joined
	groups  groupSet
	shared  bool
	over    bool // lost or released
	kept    bool // it is not handed off: its backend does not keep guarded transactions of two Locks in order
	part    bool // it is for one of several keys that a LockAll takes: it is not joined, and no caller has its Lock

	first Lock // the first Lock on the hold, so that both are one allocation
}

// severalKeys is what a hold of several keys has for each of them.
type severalKeys struct {
	keys    []driver.Key // in order, as their caller named them
	grants  []driver.Grant
	entries []*entry
}

// String returns the token of the first Lock.
func (h *hold) String() string { return h.locker.token(h.first.number) }

// grants returns the grant of each key.
func (h *hold) grants() []driver.Grant {
	if h.several != nil {
		return h.several.grants
	}
	return h.grant[:]
}

// entries returns the entry of each key.
func (h *hold) entries() []*entry {
	if h.several != nil {
		return h.several.entries
	}
	return h.entry[:]
}

// deadline is the instant until which all grants can be trusted.
func (h *hold) deadline() driver.Instant {
	grants := h.grants()
	first := grants[0].Deadline()
	for _, g := range grants[1:] {
		first = min(first, g.Deadline())
	}
	return first
}

// mayHandOffLocked reports whether h may get one more Lock without asking the server.
func (l *Locker) mayHandOffLocked(h *hold) bool {
	return !h.over && !h.kept && !h.part && !l.closed.Load() && h.several == nil && int(h.passed) < l.config.handoffs &&
		driver.Now().Sub(h.first.since) < l.config.handoffFor
}

// successorLocked returns the request that h can be handed off to when its last Lock ends, or nil.
func (l *Locker) successorLocked(h *hold) *request {
	if h.shared || h.several != nil {
		return nil
	}
	e := h.entry[0]
	if len(e.queue) == 0 || e.queue[0].config.shared || !l.mayHandOffLocked(h) {
		return nil
	}
	return e.queue[0]
}

// handOffLocked hands h off to r after its last Lock has ended.
func (l *Locker) handOffLocked(h *hold, r *request) {
	h.entry[0].dequeueLocked(r)
	r.lock = l.shareLocked(h, r)
	close(r.ready)
}

// shareLocked makes a Lock for r on a hold that this process has already. From now on a loss of the hold ends it, even if the
// waiting call has not returned it yet.
func (l *Locker) shareLocked(h *hold, r *request) *Lock {
	h.passed++
	h.part = r.of != nil
	if !h.part {
		l.countsOf(h.groups).handedOff.Add(1)
	}
	return l.attachLocked(h, r, &Lock{}, driver.Now())
}

// newHold returns a hold for r, without a grant.
func (l *Locker) newHold(r *request) *hold {
	h := &hold{locker: l, groups: r.groups, shared: r.config.shared, part: r.of != nil}
	h.entry[0], h.locks, h.first.number = r.entry, h.room[:0], r.number
	return h
}

// attachLocked makes k the Lock of r on h.
func (l *Locker) attachLocked(h *hold, r *request, k *Lock, now driver.Instant) *Lock {
	k.hold, k.since, k.number, k.use = h, now, r.number, r.config.use
	k.key[0] = r.keys[0]
	h.locks = append(h.locks, k)
	counts := l.countsOf(h.groups)
	counts.held.Add(1)
	if r.of == nil {
		counts.acquired.Add(1)
	}
	return k
}

// handOff is [hooks.HandOff]. If a loss and handOff race, the first to lock the group decides whether k or the new
// Lock is lost.
func (k *Lock) handOff(to context.Context, opts []LockOption) (next *Lock, report func(), err error) {
	h, l := k.hold, k.hold.locker
	r := &request{keys: k.keys()}
	if err := r.config.read(opts); err != nil {
		return nil, nil, err
	}
	r.number = l.numbers.Add(1)
	l.lock(h.groups)
	may := !h.over && !h.kept && driver.Now() < h.deadline() && h.several == nil && !h.shared &&
		len(h.entry[0].queue) == 0 && !l.closed.Load()
	if !may || !k.end(ErrUnlocked) {
		l.unlock(h.groups)
		return nil, nil, k.says("hand off", errNoHandOff)
	}
	removeOne(&h.locks, k)
	l.countsOf(h.groups).held.Add(-1)
	next = l.shareLocked(h, r)
	l.unlock(h.groups)
	next.limit(r.config.maxHold)
	return next, func() {
		k.reportReleased(to)
		next.reportHandedOff(to)
	}, nil
}

var errNoHandOff = fmt.Errorf("%w by the next: it has ended or is shared, or others wait for it", ErrNotAcquired)

// reportHandedOff reports a Lock that handOff has made.
func (k *Lock) reportHandedOff(ctx context.Context) {
	if o := k.hold.locker.config.observer; o != nil {
		e := k.event(EventAcquired)
		e.Took = 0
		o(ctx, e)
	}
}
