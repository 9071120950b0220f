package pglock

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// hold is a key that this process has got from the backend, and the Locks on it: several if it is shared. The group of the
// key guards it.
type hold struct {
	locker *Locker
	grant  driver.Grant
	entry  *entry
	why    LostReason // it was lost
	locks  []*Lock
	room   [1]*Lock       // for the usual one
	since  driver.Instant // of the backend's last answer that nothing was in the way of its Locks
	passed int32          // how often it was handed off or joined since then
	groups groupSet       // of its key
	shared bool
	over   bool // lost or released
	kept   bool // it is not handed off: its backend does not keep guarded transactions of two Locks in order

	first Lock // the first Lock on the hold, so that both are one allocation
}

// String returns the token of the first Lock.
func (h *hold) String() string { return h.locker.token(h.first.number) }

// mayHandOffLocked reports whether h may get one more Lock without asking the server.
func (l *Locker) mayHandOffLocked(h *hold) bool {
	return !h.over && !h.kept && !l.closed.Load() && int(h.passed) < l.config.handoffs &&
		driver.Now().Sub(h.since) < l.config.handoffFor
}

// successorLocked returns the request that h can be handed off to when its last Lock ends, or nil.
func (l *Locker) successorLocked(h *hold) *request {
	e := h.entry
	if h.shared || len(e.queue) == 0 || e.queue[0].config.shared || !l.mayHandOffLocked(h) {
		return nil
	}
	return e.queue[0]
}

// handOffLocked hands h off to r after its last Lock has ended.
func (l *Locker) handOffLocked(h *hold, r *request) {
	h.entry.dequeueLocked(r)
	r.lock = l.shareLocked(h, r)
	close(r.ready)
}

// shareLocked makes a Lock for r on a hold that this process has already. From now on a loss of the hold ends it, even if the
// waiting call has not returned it yet.
func (l *Locker) shareLocked(h *hold, r *request) *Lock {
	h.passed++
	if r.of == nil {
		l.countsOf(h.groups).handedOff.Add(1)
	}
	return l.attachLocked(h, r, &Lock{number: r.number}, driver.Now())
}

// newHold returns a hold for r, without a grant.
func (l *Locker) newHold(r *request) *hold {
	h := &hold{locker: l, entry: r.entry, groups: r.groups, shared: r.config.shared}
	h.locks, h.first.number = h.room[:0], r.number
	return h
}

// attachLocked makes k the Lock of r on h.
func (l *Locker) attachLocked(h *hold, r *request, k *Lock, now driver.Instant) *Lock {
	h.locks = append(h.locks, k)
	k.part = r.of != nil
	return l.fill(k, h, r, now)
}

// fill makes k, which has its token, the Lock of r on h, and counts it.
func (l *Locker) fill(k *Lock, h *hold, r *request, now driver.Instant) *Lock {
	k.hold, k.since, k.use = h, now, r.config.use
	k.key[0] = r.keys[0]
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
	may := !h.over && !h.kept && driver.Now() < h.grant.Deadline() && k.several == nil && !h.shared &&
		len(h.entry.queue) == 0 && !l.closed.Load()
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
