package pglock

import (
	"context"
	"errors"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// drop removes an ended Lock from its hold. The last one hands the hold to the next waiter of this process, or releases
// it. It returns the backend's error; the key is busy until the backend has answered.
func (l *Locker) drop(ctx context.Context, k *Lock) error {
	h := k.hold
	home := h.home()
	l.lock(h.shards())
	if !removeOne(&h.locks, k) { // lost while it was being unlocked: endHold has counted it
		l.unlock(h.shards())
		return k.lostError(lostReasons[h.why], nil)
	}
	home.counts.Held--
	next := l.successorLocked(h)
	switch {
	case len(h.locks) > 0:
		l.uncountLocked(h, 1)
	case next != nil:
		l.handOffLocked(h, next)
	default:
		h.makeBusyLocked()
		l.unlock(h.shards())
		return k.lossDuringUnlock(l.releaseHold(ctx, h))
	}
	l.discountLocked(home, 1) // a hold of several keys has one Lock, and is not handed off
	l.unlock(h.shards())
	return nil
}

// makeBusyLocked makes h's keys busy instead of held. releaseHold must follow.
func (h *hold) makeBusyLocked() {
	h.endLocked()
	for _, e := range h.entries() {
		e.held--
		e.busy++
	}
}

// endLocked records that the backend does not hold h any more, or soon will not.
func (h *hold) endLocked() {
	h.over = true
	removeOne(&h.entries()[0].holds, h) // it is not there if it was never granted
}

// releaseHold releases a hold, and lets others have its keys when the release is confirmed.
func (l *Locker) releaseHold(ctx context.Context, h *hold) error {
	err := l.backend.Release(ctx, h.grant)
	if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
		go func() {
			<-open.Done
			l.holdReleased(h)
		}()
		return err
	}
	l.holdReleased(h)
	return err
}

func (l *Locker) holdReleased(h *hold) {
	l.lock(h.shards())
	defer l.unlock(h.shards())
	for _, e := range h.entries() {
		e.busy--
		l.wakeQueueLocked(e)
	}
	l.discountLocked(h.home(), len(h.entries()))
}

// uncountLocked subtracts n Locks at h's keys.
func (l *Locker) uncountLocked(h *hold, n int) {
	for _, e := range h.entries() {
		e.held -= n
		l.wakeQueueLocked(e)
	}
}

// Lost implements [driver.LossHandler]: every Lock on h ends. A backend may call it before Acquire has returned.
func (h *hold) Lost(why LostReason, err error) { h.locker.endHold(h, why, err, false) }

// expire ends every Lock on h, which cannot be trusted any more although the backend has not reported its loss. The
// server may hold it for a long time, and a backend must not be asked for a key that it holds; so h is released, and
// its keys stay busy until then.
func (l *Locker) expire(h *hold, why LostReason, err error) {
	if l.endHold(h, why, err, true) {
		go func() { _ = l.releaseHold(context.Background(), h) }() // usually ErrLost, which has been reported
	}
}

// loss is a lost Lock whose loss has not been reported yet.
type loss struct {
	lock *Lock
	err  *LostError
	logs bool // the log is told, too: once for all Locks of a hold
}

// reportLosses tells the log and Observers of losses, in the background: no lock's end waits for them, however slow they are.
func reportLosses(losses []loss) {
	for _, l := range losses {
		if use := l.lock.use(); l.logs && !hooks.IsInternal(string(use.Kind)) {
			l.lock.hold.locker.warn("lock lost", l.lock.name(), use.Kind, "reason", l.err.Reason, "error", l.err.Err)
		}
		l.lock.reportLost(l.err)
	}
}

// endHold ends every Lock on h, and reports whether it is the first to end h. If release is set, the keys become busy, and
// releaseHold must follow.
func (l *Locker) endHold(h *hold, why LostReason, err error, release bool) (first bool) {
	l.lock(h.shards())
	defer l.unlock(h.shards())
	if h.over {
		return false
	}
	h.endLocked()
	h.why = uint8(max(slices.Index(lostReasons, why), 0))
	locks := h.locks
	h.locks = nil
	home := h.home()
	home.counts.Held -= len(locks)
	// Holders are notified before any other caller in this process gets the keys; Observers and the log afterwards.
	var ended []loss
	for _, k := range locks {
		if lost := k.lostError(why, err); k.end(lost) {
			ended = append(ended, loss{k, lost, len(ended) == 0})
		}
	}
	home.counts.Lost += int64(len(ended))
	l.notifications.Add(ended...)
	gone := len(locks)
	if release {
		for _, e := range h.entries() {
			e.held--
			e.busy++
		}
		gone--
	}
	if gone > 0 {
		l.discountLocked(home, gone*len(h.entries())) // a hold of several keys has one Lock
		l.uncountLocked(h, gone)
	}
	return true
}

// lostReasons numbers the reasons, so that a hold stays small. A reason that is not here is that of a session.
var lostReasons = []LostReason{LostSession, LostLease, LostGone, LostMaxHold, LostClosed}

// countLost counts a lost Lock of h.
func (h *hold) countLost() {
	home := h.home()
	home.mu.Lock()
	defer home.mu.Unlock()
	home.counts.Lost++
}

// lossDuringUnlock returns the error of an Unlock whose release failed with err.
func (l *Lock) lossDuringUnlock(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrLost) {
		return l.lostError(reasonOf(err), err)
	}
	return l.says("unlock", err)
}
