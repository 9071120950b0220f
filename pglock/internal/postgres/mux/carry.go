package mux

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Carry gives g to a session that holds nothing else. lock must lock g's keys on the session, however long that takes, and
// must leave nothing locked when it fails. Meanwhile the lease is not enforced, since there is nothing to lose. When the session does
// not hold g any more, it calls free.
//
// If ctx ends when the lock has been granted, and the server does not confirm that within a second, the session ends.
func (s *Session) Carry(ctx context.Context, g *Grant, free func(), lock func() error) error {
	if err := s.budget.reserve(g); err != nil {
		return err
	}
	s.mu.Lock()
	s.suspended = true
	s.mu.Unlock()
	began := s.lease.Now()
	err := lock()
	if err == nil {
		err = s.confirm(ctx, began)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = false
	if err == nil && s.cause != nil {
		err = errEnded{s.cause}
	}
	if err != nil {
		s.budget.giveBack(g)
		return err
	}
	s.addLocked(g)
	s.free = sync.OnceFunc(free)
	return nil
}

// confirm makes sure that the lease is recent. On the server it began when the lock was granted. After a long wait, or if
// this process was frozen meanwhile, the time at which the statement was sent does not tell when that was. Then confirm
// makes one more round trip.
func (s *Session) confirm(ctx context.Context, began driver.Instant) error {
	if s.lease.Now().Sub(began) < s.lease.Every() {
		return nil
	}
	waiting, giveUp := context.WithTimeout(context.Background(), s.lease.Length())
	defer giveUp()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerPatience, giveUp) })
	defer stop()
	answered := context.AfterFunc(waiting, func() { s.End(driver.LostSession, errNoAnswer) }) // which answers the call
	_, _, err := s.Call(context.Background(), lockdb.Heartbeat)
	answered()
	if err == nil {
		return nil
	}
	s.End(driver.LostSession, err)
	return errEnded{fmt.Errorf("confirm a lock that was waited for: %w", err)}
}

// PID returns the process ID of the session's server process, as text.
func (s *Session) PID() string { return strconv.Itoa(int(s.conn.PID)) }

// GuardPID returns, as text, the process ID that statements compare with that of their server process; 0 where a proxy is
// allowed.
func (s *Session) GuardPID() string { return strconv.Itoa(int(s.conn.GuardPID)) }

// Cancel asks the server to cancel the running statement.
func (s *Session) Cancel(ctx context.Context) error { return s.conn.Cancel(ctx) }
