package semaphore

import (
	"context"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// waiter is one call that wants permits. It is served when got has as many slots as weight.
type waiter struct {
	ctx    context.Context // for its values
	since  driver.Instant
	weight int
	try    bool // it fails if it would have to wait
	got    []held
	err    error
	ready  chan struct{} // closed when it has been served, or failed
	waits  chan struct{} // closed when it is clear that it has to wait
	marked bool          // waits is closed
}

// held is a slot that this process holds.
type held struct {
	slot int
	lock *pglock.Lock
}

// enter puts w at the end of the queue, which always has a keeper.
func (s *Semaphore) enter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.try && s.blocked {
		w.err = pglock.ErrNotAcquired
		close(w.ready)
		return
	}
	s.queue = append(s.queue, w)
	if s.blocked {
		s.markLocked()
	}
	if !s.keeping {
		s.keeping = true
		go s.run()
	}
}

// markLocked notes that all calls in the queue have to wait.
func (s *Semaphore) markLocked() {
	if s.unwatch == nil {
		s.unwatch = hooks.Watch(s.locker, &hooks.Waits{Use: s.use(), Keys: s.keys[1:], Now: s.longestWait})
	}
	for _, w := range s.queue {
		if !w.marked {
			w.marked = true
			close(w.waits)
		}
	}
}

// longestWait returns since when the first call waits, and how many there are.
func (s *Semaphore) longestWait() (since driver.Instant, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return 0, 0
	}
	return s.queue[0].since, len(s.queue)
}

// leave removes w from the queue, and reports false if w has already been served or has failed.
func (s *Semaphore) leave(w *waiter) bool {
	s.mu.Lock()
	i := slices.Index(s.queue, w)
	if i < 0 {
		s.mu.Unlock()
		return false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	got := w.got
	s.changedLocked()
	s.mu.Unlock()
	for _, h := range got {
		_ = s.giveBack(w.ctx, h) // w never had it, so a loss does not matter
	}
	return true
}

// changedLocked notifies the keeper that the queue has become shorter.
func (s *Semaphore) changedLocked() {
	if len(s.queue) == 0 && s.cancelGate != nil {
		s.cancelGate()
	}
	s.wakeKeeper()
}

func (s *Semaphore) wakeKeeper() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// serveLocked gives h to the first waiter, and reports false if there is none.
func (s *Semaphore) serveLocked(h held) bool {
	if len(s.queue) == 0 {
		return false
	}
	w := s.queue[0]
	w.got = append(w.got, h)
	s.mine[h.slot] = h.lock
	if len(w.got) == w.weight {
		s.queue = slices.Delete(s.queue, 0, 1)
		close(w.ready)
		s.changedLocked()
	}
	return true
}

// giveBack passes a slot on to the first waiter of this process, or releases it.
//
// While this process holds the gate it is the next in line anyway, so no limit applies. Otherwise the handoff limit
// applies to all its slots together, and a waiter that needs several slots gets none: two such waiters that collected
// slots without the gate could wait for each other's.
func (s *Semaphore) giveBack(ctx context.Context, h held) error {
	over := h.lock.Err() != nil // which may call the Observer
	s.mu.Lock()
	if !over && len(s.queue) > 0 && (s.atGate || s.queue[0].weight == 1 && s.turn.lasts(driver.Now())) {
		next, report, err := hooks.HandOff(h.lock, s.queue[0].ctx, s.slot)
		if err == nil {
			s.turn.passed++
			s.serveLocked(held{h.slot, next.(*pglock.Lock)})
			s.mu.Unlock()
			report()
			return nil
		}
	}
	s.turn.begin(driver.Now())
	s.mu.Unlock()
	err := h.lock.Unlock(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(h)
	if s.atGate { // a call that came meanwhile saw it held
		s.lookAt = 0
		s.wakeKeeper()
	}
	return err
}

// forgetLocked records that a slot is no longer held here, and that it is a good one to try first.
func (s *Semaphore) forgetLocked(h held) {
	if s.mine[h.slot] == h.lock {
		s.mine[h.slot] = nil
	}
	if i := slices.Index(s.recent, h.slot); i >= 0 {
		s.recent = slices.Delete(s.recent, i, i+1)
	}
	if len(s.recent) == maxRecent {
		s.recent = s.recent[1:]
	}
	s.recent = append(s.recent, h.slot)
}

const maxRecent = 16

// failTriesLocked fails the calls that do not wait.
func (s *Semaphore) failTriesLocked() (freed []held) {
	s.queue = slices.DeleteFunc(s.queue, func(w *waiter) bool {
		if w.try {
			freed = append(freed, s.failLocked(w, pglock.ErrNotAcquired)...)
		}
		return w.try
	})
	return freed
}

// failLocked fails w, which has left the queue, and returns the slots that it had collected.
func (s *Semaphore) failLocked(w *waiter, err error) (freed []held) {
	w.err, freed, w.got = err, w.got, nil
	close(w.ready)
	return freed
}
