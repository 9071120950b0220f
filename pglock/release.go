package pglock

import (
	"context"
	"errors"
	"slices"
)

// drop takes a Lock that has ended off its hold. The last one passes the hold on to the next waiter of this process, or
// gives it back to the backend. It returns what the backend said; while that is asked, the key stays busy.
func (l *Locker) drop(ctx context.Context, k *Lock) error {
	h := k.hold
	l.mu.Lock()
	if !h.remove(k) { // lost while it was being unlocked: lose has counted it
		l.mu.Unlock()
		return k.lostError(LostSession, nil)
	}
	l.counts.Held--
	next := l.successor(h)
	switch {
	case len(h.locks) > 0:
		l.letGo(h, 1)
	case next != nil:
		l.passOn(h, next)
	default:
		l.retire(h)
		l.mu.Unlock()
		return k.lossDuringUnlock(l.giveBack(ctx, h))
	}
	l.forget(1) // a hold of several keys has one Lock, and is not passed on
	l.mu.Unlock()
	return nil
}

// retire makes h's keys busy in place of held. It runs under mu, and giveBack must follow.
func (l *Locker) retire(h *hold) {
	h.over = true
	l.unlink(h)
	for _, e := range h.entries() {
		e.held--
		e.busy++
	}
}

// giveBack releases a retired hold, and lets others go on with its keys.
func (l *Locker) giveBack(ctx context.Context, h *hold) error {
	err := l.backend.Release(ctx, h.grant)

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range h.entries() {
		e.busy--
		l.pump(e)
	}
	l.forget(len(h.entries()))
	return err
}

// link and unlink keep the list of the holds. They run under mu.
func (l *Locker) link(h *hold) {
	h.next = l.holds
	if h.next != nil {
		h.next.prev = h
	}
	l.holds = h
}

func (l *Locker) unlink(h *hold) {
	switch {
	case h.prev != nil:
		h.prev.next = h.next
	case l.holds == h:
		l.holds = h.next
	default:
		return // it has never been granted
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}

// letGo counts n Locks less at h's keys. It runs under mu.
func (l *Locker) letGo(h *hold, n int) {
	for _, e := range h.entries() {
		e.held -= n
		l.pump(e)
	}
}

// remove takes k off, and reports false when it was not on any more.
func (h *hold) remove(k *Lock) bool {
	i := slices.Index(h.locks, k)
	if i < 0 {
		return false
	}
	h.locks = slices.Delete(h.locks, i, i+1)
	return true
}

// Lost implements [driver.Owner]: every Lock on h ends, since it is gone on the server. A backend may call it before
// Acquire has returned.
func (h *hold) Lost(why LostReason, err error) { h.locker.abandon(h, why, err) }

// lapse ends every Lock on h, whose deadline has passed. The backend may not have noticed yet, or may even just have
// heard from the server after all: so h is given back as well, or it would be held by nobody.
func (l *Locker) lapse(h *hold) {
	if l.abandon(h, LostLease, nil) {
		go func() {
			_ = l.backend.Release(context.Background(), h.grant) // most likely it says that the lock was lost, which is known
		}()
	}
}

// loss is a Lock that has ended with a loss, of which nobody has been told yet.
type loss struct {
	lock *Lock
	err  *LostError
}

func (l loss) tell() { l.lock.tellLost(l.err) }

func (l *Locker) abandon(h *hold, why LostReason, err error) (first bool) {
	l.mu.Lock()
	if h.over {
		l.mu.Unlock()
		return false
	}
	h.over = true
	l.unlink(h)
	locks := h.locks
	h.locks = nil
	l.counts.Held -= len(locks)
	for _, k := range locks {
		l.forget(len(k.keys()))
	}
	// The holders are told before anybody in this process gets the keys.
	var ended []loss
	for _, k := range locks {
		if lost := k.lostError(why, err); k.end(lost) {
			ended = append(ended, loss{k, lost})
		}
	}
	l.counts.Lost += int64(len(ended))
	if len(locks) > 0 {
		l.letGo(h, len(locks))
	}
	l.mu.Unlock()
	for _, loss := range ended {
		loss.tell()
	}
	if len(ended) > 0 {
		l.config.env.Logger.Warn("lock lost", "key", Key{k: h.first.key[0]}, "reason", string(why), "error", err)
	}
	return true
}

func (l *Locker) countLost(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Lost += n
}

// lossDuringUnlock explains what the backend said to a release.
func (k *Lock) lossDuringUnlock(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrLost) {
		return k.lostError(LostSession, err)
	}
	return k.says("unlock", err)
}
