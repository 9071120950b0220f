package semaphore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// run is the keeper, the only goroutine of a semaphore that asks the server. It runs while there are waiters in this
// process: it takes the gate, looks for slots, and serves the queue in order.
func (s *Semaphore) run() {
	contended := false // the gate was held elsewhere when it was last tried
	for {
		ctx, ok := s.head()
		if !ok {
			return
		}
		gate, waited, err := s.takeGate(ctx, contended)
		if err != nil {
			s.failAll(err)
			continue
		}
		if gate == nil { // no more waiters
			continue
		}
		contended = waited > tryGateAgain
		s.serve(ctx, gate)
		_ = gate.Unlock(ctx) // if it was lost, that has been noticed
	}
}

// head returns the context of the first waiter, for its values; if there is none the keeper ends.
func (s *Semaphore) head() (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		if s.unwatch != nil {
			s.unwatch()
		}
		s.keeping, s.blocked, s.unwatch = false, false, nil
		return nil, false
	}
	return s.queue[0].ctx, true
}

const (
	keepGateFor = 20 * time.Millisecond // how long a process may go on serving its own waiters

	// Pauses between two looks. Each is a quarter longer than the one before, since others give slots back all the time
	// where many wait.
	firstPause = lastPause / 32
	lastPause  = 20 * time.Millisecond

	gateTries    = 3
	tryGateAgain = 2 * time.Millisecond
)

// takeGate takes the gate, and returns how long it waited in line. The gate is nil if there are no more waiters
// here.
//
// Calls that do not wait fail if other processes wait at the gate. But a process that only passes the gate releases it
// within moments, so takeGate tries a few times before it lets those calls fail, unless the gate was contended just
// now.
func (s *Semaphore) takeGate(ctx context.Context, contended bool) (gate *pglock.Lock, waited time.Duration, err error) {
	for i := range gateTries {
		if contended {
			break
		}
		gate, err := s.locker.TryLock(ctx, s.keys[0], s.gate...)
		if !errors.Is(err, pglock.ErrNotAcquired) {
			return gate, 0, err
		}
		if !s.headTries() {
			break
		}
		if i < gateTries-1 {
			time.Sleep(rand.N(tryGateAgain))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.block(cancel) {
		return nil, 0, nil
	}
	start := driver.Now()
	gate, err = s.locker.Lock(ctx, s.keys[0], s.gate...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelGate, s.blocked = nil, false
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil, 0, nil
	}
	return gate, driver.Now().Sub(start), err
}

// headTries reports whether the first call in the queue is one that does not wait.
func (s *Semaphore) headTries() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0 && s.queue[0].try
}

// block notes that new callers must wait, and that cancel ends the wait for the gate. It returns false if there are no
// waiters.
func (s *Semaphore) block(cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failTriesLocked() // without the gate they have collected no slots
	if len(s.queue) == 0 {
		return false
	}
	s.blocked, s.cancelGate = true, cancel
	s.markLocked()
	return true
}

// failAll fails all waiters.
func (s *Semaphore) failAll(err error) {
	s.mu.Lock()
	var freed []held
	for _, w := range s.queue {
		freed = append(freed, s.failLocked(w, err)...)
	}
	s.queue = nil
	s.mu.Unlock()
	s.release(freed)
}

// serve looks for slots and gives them to the queue while this process holds the gate. It returns when no waiters are
// left here, when the gate is lost, or after keepGateFor, but not before the first waiter has been served or has left.
func (s *Semaphore) serve(ctx context.Context, gate *pglock.Lock) {
	start := driver.Now()
	defer s.leaveGate()
	var last *waiter
	for {
		w, lacks, wait := s.first()
		turn := last == nil || w == last || driver.Now().Sub(start) < keepGateFor
		if w == nil || !turn || gate.Err() != nil {
			return
		}
		last = w
		if wait <= 0 {
			found, err := s.look(ctx, lacks)
			if err != nil && len(found) == 0 {
				s.failAll(err)
				return
			}
			s.give(found)
			continue
		}
		if !s.pause(gate, wait) {
			return
		}
	}
}

// first returns the first waiter, how many slots it lacks, and the time until the next look. From then on the waiter
// can get slots that are released here.
func (s *Semaphore) first() (w *waiter, lacks int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atGate = true
	if len(s.queue) == 0 {
		return nil, 0, 0
	}
	w = s.queue[0]
	return w, w.weight - len(w.got), s.lookAt.Sub(driver.Now())
}

// give gives slots to the queue in order. If the first waiter has not been served, it sets the time of the next look,
// and calls that do not wait fail.
func (s *Semaphore) give(found []held) {
	s.mu.Lock()
	var before *waiter
	if len(s.queue) > 0 {
		before = s.queue[0]
	}
	var freed []held
	if len(found) > 0 {
		s.turn.came(driver.Now())
	}
	for _, h := range found {
		if !s.serveLocked(h) {
			freed = append(freed, h)
		}
	}
	if s.blocked = len(s.queue) > 0 && s.queue[0] == before; s.blocked {
		s.every = min(max(s.every+s.every/4, firstPause), lastPause)
		s.lookAt = driver.Now().Add(s.every)
		freed = append(freed, s.failTriesLocked()...)
		s.blocked = len(s.queue) > 0
		s.markLocked()
	} else {
		s.every = 0
	}
	s.mu.Unlock()
	s.release(freed)
}

// pause waits until it is time to look again, or the queue has become shorter. It reports false when the gate was lost.
func (s *Semaphore) pause(gate *pglock.Lock, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	case <-gate.Done():
		return false
	}
	return true
}

// leaveGate is called before the gate is given up, or when it was lost. It gives back the slots that the first waiter
// has collected, since another process could be waiting for them.
func (s *Semaphore) leaveGate() {
	s.mu.Lock()
	s.atGate, s.blocked, s.lookAt, s.every = false, false, 0, 0
	var freed []held
	if len(s.queue) > 0 {
		freed, s.queue[0].got = s.queue[0].got, nil
	}
	s.mu.Unlock()
	s.release(freed)
}

// release gives unused slots back to the server.
func (s *Semaphore) release(slots []held) {
	for _, h := range slots {
		_ = h.lock.Unlock(context.Background()) // it was not used
		s.mu.Lock()
		s.forgetLocked(h)
		s.mu.Unlock()
	}
}
