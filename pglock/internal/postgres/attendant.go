package postgres

import (
	"sync"
	"time"
)

// attendant starts the listeners of sessions that have waited for a lock, a moment after their callers have got it. To
// start a goroutine wakes a processor, which would make a caller, whose lock somebody else has just given up, wait for a
// twentieth longer; so would a timer that is started then. Hence one that runs already while anybody waits.
//
// Until then nobody reads from the session, so its end is noticed that much later. Its lease is kept: a heartbeat is not
// due that soon, and whoever uses the session meanwhile leaves it with a listener.
type attendant struct {
	backend *Backend

	mu      sync.Mutex
	running bool
	waiting int        // sessions that are to come
	late    []*session // sessions that may have no listener, some of them more than once
}

// expect says that a session is going to wait; leave must follow.
func (a *attendant) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting++
	if !a.running {
		a.running = true
		a.backend.spawn(a.run)
	}
}

// leave hands over a session that has waited, and whose connection the caller owns no longer.
func (a *attendant) leave(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	a.late = append(a.late, s)
}

func (a *attendant) run() {
	for pause(a.backend.life, attendEvery) {
		if !a.attendAll() {
			return
		}
	}
}

// attendAll starts the listeners that are missing, and reports whether there will be more to do.
func (a *attendant) attendAll() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.late {
		s.attendIfFree()
	}
	clear(a.late)
	a.late = a.late[:0]
	a.running = a.waiting > 0
	return a.running
}

// attendIfFree starts the listener if there is none. Whoever uses the connection now will do that, or hand the session
// over again.
func (s *session) attendIfFree() {
	select {
	case <-s.turn:
	default:
		return
	}
	if !s.attended && !s.isDead() {
		s.attend()
	}
	s.turn <- struct{}{}
}

const attendEvery = 5 * time.Millisecond // what pglock's documentation promises
