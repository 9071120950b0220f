package pglock

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// drop takes a Lock that has ended off its hold. The last one passes the hold on to the next waiter of this process, or
// gives it back to the backend. It returns what the backend said; while that is asked, the key stays busy.
func (l *Locker) drop(ctx context.Context, k *Lock) error {
	h := k.hold
	home := h.home()
	l.lock(h.shards())
	if !h.locks.remove(k) { // lost while it was being unlocked: endHold has counted it
		l.unlock(h.shards())
		return k.lostError(LostSession, nil)
	}
	home.counts.Held--
	next := l.successor(h)
	switch {
	case !h.locks.empty():
		l.letGo(h, 1)
	case next != nil:
		l.passOn(h, next)
	default:
		h.retire()
		l.unlock(h.shards())
		return k.lossDuringUnlock(l.giveBack(ctx, h))
	}
	l.discount(home, 1) // a hold of several keys has one Lock, and is not passed on
	l.unlock(h.shards())
	return nil
}

// retire makes h's keys busy in place of held. It runs under mu, and giveBack must follow.
func (h *hold) retire() {
	h.end()
	for _, e := range h.entries() {
		e.held--
		e.busy++
	}
}

// end notes that the backend does not hold h any more, or will soon not.
func (h *hold) end() {
	h.over = true
	removeOne(&h.entries()[0].holds, h) // it is not there when it has never been granted
}

// giveBack releases a retired hold, and lets others go on with its keys as soon as it is known that it is given back.
func (l *Locker) giveBack(ctx context.Context, h *hold) error {
	err := l.backend.Release(ctx, h.grant)
	if open, ok := errors.AsType[*driver.Unsettled](err); ok {
		go func() {
			<-open.Done
			l.gaveBack(h)
		}()
		return err
	}
	l.gaveBack(h)
	return err
}

func (l *Locker) gaveBack(h *hold) {
	l.lock(h.shards())
	defer l.unlock(h.shards())
	for _, e := range h.entries() {
		e.busy--
		l.pump(e)
	}
	l.discount(h.home(), len(h.entries()))
}

// letGo counts n Locks less at h's keys. It runs under mu.
func (l *Locker) letGo(h *hold, n int) {
	for _, e := range h.entries() {
		e.held -= n
		l.pump(e)
	}
}

// Lost implements [driver.Owner]: every Lock on h ends, since it is gone on the server. A backend may call it before
// Acquire has returned.
func (h *hold) Lost(why LostReason, err error) { h.locker.endHold(h, why, err, false) }

// lapse ends every Lock on h, which cannot be trusted any more although the backend has not called it lost. The server may
// hold it for long, and a backend must not be asked for what it holds already; so h is given back, and its keys stay busy
// until that has been done.
func (l *Locker) lapse(h *hold, why LostReason, err error) {
	if l.endHold(h, why, err, true) {
		go func() { _ = l.giveBack(context.Background(), h) }() // most likely it says that the lock was lost, which is known
	}
}

// loss is a Lock that has ended with a loss, which has not been reported yet.
type loss struct {
	lock *Lock
	err  *LostError
}

func (l loss) report() { l.lock.tellLost(l.err) }

// endHold ends every Lock on h, and reports whether it is the first to end h. If the keys are still to be released they
// become busy, and giveBack must follow.
func (l *Locker) endHold(h *hold, why LostReason, err error, release bool) (first bool) {
	l.lock(h.shards())
	defer l.unlock(h.shards())
	if h.over {
		return false
	}
	h.end()
	locks := h.locks.all()
	h.locks = lockSet{}
	home := h.home()
	home.counts.Held -= len(locks)
	// The holders learn of it before anything else in this process gets the keys; Observers and the log do afterwards.
	var ended []loss
	for _, k := range locks {
		if lost := k.lostError(why, err); k.end(lost) {
			ended = append(ended, loss{k, lost})
		}
	}
	home.counts.Lost += int64(len(ended))
	l.report(h, why, err, ended)
	gone := len(locks)
	if release {
		for _, e := range h.entries() {
			e.held--
			e.busy++
		}
		gone--
	}
	if gone > 0 {
		l.discount(home, gone*len(h.entries())) // a hold of several keys has one Lock
		l.letGo(h, gone)
	}
	return true
}

// report makes the losses known to the log and to Observers.
func (l *Locker) report(h *hold, why LostReason, err error, ended []loss) {
	if len(ended) == 0 {
		return
	}
	l.news.add(func() {
		l.config.env.Logger.Warn("lock lost", "key", Key{k: h.first.key[0]}, "reason", string(why), "error", err)
		for _, loss := range ended {
			loss.report()
		}
	})
}

// countLost counts a Lock of h that has ended with a loss.
func (h *hold) countLost() {
	home := h.home()
	home.mu.Lock()
	defer home.mu.Unlock()
	home.counts.Lost++
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
