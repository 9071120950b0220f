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

// drop removes an ended Lock from its holds, each of which is handed to the next waiter of this process, or released, if it
// was the last one there. It returns the backend's error; the keys are busy until the backend has answered.
func (l *Locker) drop(ctx context.Context, k *Lock) (err error) {
	l.countsOf(k.hold.groups).held.Add(-1)
	if k.several == nil {
		unused, err := l.detach(k.hold, k)
		if unused {
			err = k.lossDuringUnlock(l.release(ctx, k.hold))
		}
		return err
	}
	var unused []*hold
	for _, h := range k.several.holds {
		last, lost := l.detach(h, k)
		if last {
			unused = append(unused, h)
		}
		err = cmp.Or(err, lost)
	}
	return cmp.Or(err, k.lossDuringUnlock(l.releaseTogether(ctx, unused)))
}

// detach removes k from h. If it was the last Lock there, h is handed off, or unused: then its key is busy, and release must follow.
func (l *Locker) detach(h *hold, k *Lock) (unused bool, err error) {
	l.lock(h.groups)
	defer l.unlock(h.groups)
	if !removeOne(&h.locks, k) { // lost while it was being unlocked
		return false, k.lostError(h.why, nil)
	}
	next := l.successorLocked(h)
	switch {
	case len(h.locks) > 0:
		return false, nil
	case next != nil:
		l.handOffLocked(h, next)
		return false, nil
	}
	h.makeBusyLocked()
	return true, nil
}

// makeBusyLocked makes h's key busy instead of held, until the server has answered the release.
func (h *hold) makeBusyLocked() {
	e := h.entry
	h.over, e.hold = true, nil
	e.busy++
	e.asked = e.answers
}

// release releases what the backend has granted to h, and lets others have the key when that is confirmed.
func (l *Locker) release(ctx context.Context, h *hold) error {
	return l.released(h, l.backend.Release(ctx, h.grant))
}

// releaseTogether is release for several holds.
func (l *Locker) releaseTogether(ctx context.Context, holds []*hold) error {
	errs, done := make([]error, len(holds)), false
	if b, ok := l.backend.(driver.Together); ok && len(holds) > 1 {
		var grants []driver.Grant
		for _, h := range holds {
			grants = append(grants, h.grant)
		}
		if errs, done = b.ReleaseTogether(ctx, grants); done {
			for i, h := range holds {
				_ = l.released(h, errs[i])
			}
		}
	}
	if !done {
		errs = make([]error, len(holds))
		var releases sync.WaitGroup
		for i, h := range holds {
			releases.Go(func() { errs[i] = l.release(ctx, h) })
		}
		releases.Wait()
	}
	if lost := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, ErrLost) }); lost >= 0 {
		return errs[lost]
	}
	return cmp.Or(errs...)
}

// released notes that the backend has released a grant, or will have when its error is settled, and returns the error.
func (l *Locker) released(h *hold, err error) error {
	if err == nil {
		l.free(h)
		return nil
	}
	driver.WhenSettled(err, func() { l.free(h) })
	return err
}

// free lets others have the key of h, which has been released.
func (l *Locker) free(h *hold) {
	l.lock(h.groups)
	defer l.unlock(h.groups)
	l.freeLocked(h.entry)
}

// Lost implements [driver.LossHandler]: every Lock on h ends. A backend may call it before Acquire has returned.
func (h *hold) Lost(why LostReason, err error) { h.locker.endHold(h, why, err, false) }

// expire ends every Lock on h, which cannot be trusted any more although the backend has not reported its loss. The
// server may hold it for a long time, and a backend must not be asked for a key that it holds; so h is released, and
// its key stays busy until then.
func (l *Locker) expire(h *hold, why LostReason, err error) { l.endHold(h, why, err, true) }

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

// endHold ends every Lock on h, unless it is over already, and drops what they have besides. With release it releases h.
func (l *Locker) endHold(h *hold, why LostReason, err error, release bool) {
	l.lock(h.groups)
	defer l.unlock(h.groups)
	if h.over {
		return
	}
	h.why = why
	if len(h.locks) == 0 { // it has not been granted yet
		h.over = true
		return
	}
	locks := h.locks
	h.locks = nil
	counts := l.countsOf(h.groups)
	// Holders are notified before any other caller in this process gets the key; Observers and the log afterwards.
	var losses []loss
	for _, k := range locks {
		lost := k.lostError(why, err)
		if !k.end(lost) {
			continue // its Unlock, or what else has ended it, drops it
		}
		if k.several == nil {
			counts.held.Add(-1)
		} else {
			go func() { _ = l.drop(context.Background(), k) }()
		}
		if !k.part {
			losses = append(losses, loss{k, lost, len(losses) == 0 && why != LostClosed})
		}
	}
	counts.lost.Add(int64(len(losses)))
	l.notifications.Add(losses...)
	h.makeBusyLocked()
	if !release {
		l.freeLocked(h.entry)
		return
	}
	go func() { _ = l.release(context.Background(), h) }() // usually ErrLost, which has been reported
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
