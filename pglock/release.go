package pglock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// drop removes an ended Lock from its hold. The last one hands the hold to the next waiter of this process, or releases
// it. It returns the backend's error; the key is busy until the backend has answered.
func (l *Locker) drop(ctx context.Context, k *Lock) error {
	h := k.hold
	l.lock(h.groups)
	if !removeOne(&h.locks, k) { // lost while it was being unlocked: endHold has counted it
		l.unlock(h.groups)
		return k.lostError(h.why, nil)
	}
	l.countsOf(h.groups).held.Add(-1)
	next := l.successorLocked(h)
	switch {
	case len(h.locks) > 0:
	case next != nil:
		l.handOffLocked(h, next)
	default:
		h.makeBusyLocked()
		l.unlock(h.groups)
		return k.lossDuringUnlock(l.releaseHold(ctx, h))
	}
	l.unlock(h.groups)
	return nil
}

// makeBusyLocked makes h's keys busy instead of held.
func (h *hold) makeBusyLocked() {
	h.over, h.open = true, int32(len(h.grants()))
	for _, e := range h.entries() {
		removeOne(&e.holds, h)
		e.busy++
	}
}

// freeLocked lets others have the keys of h, which are busy.
func (l *Locker) freeLocked(h *hold) {
	for _, e := range h.entries() {
		e.busy--
		l.wakeQueueLocked(e)
	}
}

// releaseHold releases a hold, and lets others have its keys when that is confirmed.
func (l *Locker) releaseHold(ctx context.Context, h *hold) error {
	if h.several == nil {
		return l.released(h, l.backend.Release(ctx, h.grant[0]))
	}
	grants := h.several.grants
	errs, done := []error(nil), false
	if b, ok := l.backend.(driver.Together); ok {
		errs, done = b.ReleaseTogether(ctx, grants)
	}
	if !done {
		errs = make([]error, len(grants))
		var releases sync.WaitGroup
		for i, g := range grants {
			releases.Go(func() { errs[i] = l.backend.Release(ctx, g) })
		}
		releases.Wait()
	}
	for _, err := range errs {
		_ = l.released(h, err)
	}
	if lost := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, ErrLost) }); lost >= 0 {
		return errs[lost]
	}
	return cmp.Or(errs...)
}

// released notes that the backend has released a grant, or will have when its error is settled, and returns the error.
func (l *Locker) released(h *hold, err error) error {
	if err == nil {
		l.grantReleased(h)
		return nil
	}
	driver.WhenSettled(err, func() { l.grantReleased(h) })
	return err
}

func (l *Locker) grantReleased(h *hold) {
	l.lock(h.groups)
	defer l.unlock(h.groups)
	if h.open--; h.open == 0 {
		l.freeLocked(h)
	}
}

// Lost implements [driver.LossHandler]: every Lock on h ends. A backend may call it before Acquire has returned.
func (h *hold) Lost(why LostReason, err error) { h.locker.endAndRelease(h, why, err, false) }

// expire ends every Lock on h, which cannot be trusted any more although the backend has not reported its loss. The
// server may hold it for a long time, and a backend must not be asked for a key that it holds; so h is released, and
// its keys stay busy until then.
func (l *Locker) expire(h *hold, why LostReason, err error) { l.endAndRelease(h, why, err, true) }

func (l *Locker) endAndRelease(h *hold, why LostReason, err error, release bool) {
	if ended := l.endHold(h, why, err, release); ended != nil {
		go func() { _ = l.releaseHold(context.Background(), ended) }() // usually ErrLost, which has been reported
	}
}

// loss is a lost Lock whose loss has not been reported yet.
type loss struct {
	lock *Lock
	err  *LostError
	logs bool // the log is told, too: once for all Locks of a hold, unless Close says it
}

// reportLosses tells the log and Observers of losses, in the background: no lock's end waits for them, however slow they are.
func reportLosses(losses []loss) {
	for _, l := range losses {
		if use := l.lock.purpose(); l.logs && !hooks.IsInternal(string(use.Kind)) {
			l.lock.hold.locker.warn("lock lost", l.lock.name(), use.Kind, "reason", l.err.Reason, "error", l.err.Err)
		}
		l.lock.reportLost(l.err)
	}
}

// endHold ends every Lock on h, unless it is over already. If it returns a hold, releaseHold must follow for that, and its keys
// are busy until then. With release that is h; without, its only grant is lost. The grant may be one of several of another hold
// by now, which then has others to be released.
func (l *Locker) endHold(h *hold, why LostReason, err error, release bool) (ended *hold) {
	l.lock(h.groups)
	if whole := h.whole; whole != nil {
		l.unlock(h.groups)
		return l.endHold(whole, why, err, true)
	}
	defer l.unlock(h.groups)
	if h.over {
		return nil
	}
	h.why = why
	if len(h.locks) == 0 { // it has not been granted yet
		h.over = true
		return nil
	}
	locks := h.locks
	h.locks = nil
	counts := l.countsOf(h.groups)
	counts.held.Add(-int64(len(locks)))
	// Holders are notified before any other caller in this process gets the keys; Observers and the log afterwards.
	var losses []loss
	for _, k := range locks {
		if lost := k.lostError(why, err); k.end(lost) && !h.part {
			losses = append(losses, loss{k, lost, len(losses) == 0 && why != LostClosed})
		}
	}
	counts.lost.Add(int64(len(losses)))
	l.notifications.Add(losses...)
	h.makeBusyLocked()
	if !release {
		l.freeLocked(h)
		return nil
	}
	return h
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
