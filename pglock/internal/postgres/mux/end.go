package mux

import (
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// End ends the session: first its locks end, so that their holders know before the server can grant them to others;
// then the socket is closed, which frees them; then the waiting callers are answered. Only the first call
// does anything.
func (s *Session) End(why driver.LostReason, err error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	s.cause = wire.Ended(why, err)
	s.timer.Stop()
	lost, free := s.grants, s.free
	s.grants = nil
	polite := why == driver.LostClosed && !s.sending
	s.mu.Unlock()
	for _, g := range lost {
		g.owner.Lost(why, err)
		if free != nil {
			free()
		}
	}
	if polite {
		s.conn.Terminate()
	} else {
		s.conn.Close()
	}

	s.mu.Lock()
	for _, g := range lost {
		s.budget.giveBack(g)
	}
	for _, b := range s.batches {
		s.abandonLocked(b.ops)
	}
	s.abandonLocked(s.queue)
	s.queue, s.batches = nil, nil
	s.unlock()
	s.onEnd(s)
	log := s.log.Debug
	if len(lost) > 0 {
		log = s.log.Warn
	}
	log("lock session ended", "pid", s.conn.PID, "locks", len(lost), "reason", why, "error", err)
}

// abandonLocked answers ops that the end of the session leaves without an answer. If a try was granted, its locks ended
// with the session. The keys of a release are free in any case, but whether they were held until then is not known.
func (s *Session) abandonLocked(left []*op) {
	for _, o := range left {
		switch {
		case o.state == answered:
		case o.kind == call:
			s.finishLocked(o, errEnded{s.cause})
		case o.kind == release:
			s.endLocked(o, wire.LostBecause(s.cause))
		default:
			s.endLocked(o, errEnded{s.cause})
		}
	}
}

// Ended reports whether the session has ended.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause != nil
}
