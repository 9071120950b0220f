package mux

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// keepLease keeps the lease: it sends a heartbeat when nothing else was sent for a while, and ends the session when the lease
// is over. It also tells callers whose contexts have ended.
func (s *Session) keepLease() {
	s.mu.Lock()
	switch {
	case s.cause != nil:
		s.mu.Unlock()
		return
	case s.suspended:
	case s.lease.Over():
		// Frozen for longer than the lease: an answer now would not tell whether the server had ended the session before.
		s.mu.Unlock()
		s.End(driver.LostLease, nil)
		return
	}
	now := s.lease.Now()
	s.looksSoon = s.endWaitsLocked(s.queue, now)
	for _, b := range s.batches {
		s.looksSoon = s.endWaitsLocked(b.ops, now) || s.looksSoon
	}
	every := s.lease.Every()
	quiet := !s.suspended && !s.sending && len(s.batches) == 0 && now.Sub(s.lastSent) >= every-min(every, lookEvery)/2
	s.timer.Reset(s.nextLook())
	s.unlock()
	if quiet {
		_, _, _ = s.Call(context.Background(), lockdb.Heartbeat) // an error is the session's end, or comes again
	}
}

// nextLook returns how long keepLease waits before it runs again.
func (s *Session) nextLook() time.Duration {
	next := min(s.lease.Every(), lookEvery)
	if s.looksSoon {
		next = min(next, waitEvery)
	}
	if left := s.lease.Left(); left > 0 {
		next = min(next, left)
	}
	return next
}

// endWaitsLocked tells callers whose contexts have ended, and ends the waits for releases that have lasted for about
// [driver.ReleaseTimeout], also if other statements have been answered meanwhile. It reports whether the context of one that goes on
// may end. A context's Err may look at a clock, and wait for its Done.
func (s *Session) endWaitsLocked(waiting []*op, now driver.Instant) (mayEnd bool) {
	for _, o := range waiting {
		if o.query != nil && o.query.about != nil { // the question about a batch that is being reconciled
			mayEnd = s.endWaitsLocked(o.query.about.ops, now) || mayEnd
		}
		switch {
		case o.left != nil || o.told || o.state == answered:
		case o.kind == release && now.Sub(o.since) >= driver.ReleaseTimeout-lookEvery:
			s.interruptLocked(o)
			o.err = o.leaveBehindLocked(errReleasing)
			s.woken = append(s.woken, o)
		default:
			select {
			case <-o.ctx.Done():
				o.told = true
				s.interruptLocked(o)
				o.wake <- false
			default:
				mayEnd = mayEnd || o.ctx.Done() != nil
			}
		}
	}
	return mayEnd
}

var errReleasing = errors.Join(driver.ErrUnavailable, errors.New("no answer to the release in time; the server frees the lock "+
	"when it takes the statement, or when the lease is over"))

const (
	lookEvery = time.Second
	waitEvery = 10 * time.Millisecond // while callers wait
)
