// Package leadertest provides the conformance suite of package leader, for every backend on which electors are
// used.
package leadertest

import (
	"context"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// Lose takes the lock on key away from the process that holds it, as a server does when it ends the session or forgets
// the lock.
type Lose func(t testing.TB, key pglock.Key)

// Exercise runs the suite. open is as in [locktest.Exercise]: each Locker represents a process. lose may be nil for a
// backend that cannot lose a lock on demand; that is logged.
func Exercise(t *testing.T, open locktest.Opener, lose Lose) {
	exercise(t, open, lose, map[string]func(*suite){
		"OneOfManyLeads":                   (*suite).oneLeads,
		"ALostLockEndsTheTermAndRunGoesOn": (*suite).lost,
	})
}

func exercise(t *testing.T, open locktest.Opener, lose Lose, cases map[string]func(*suite)) {
	suitetest.Run(t, 2*time.Minute, func(s *suitetest.Suite) *suite { return &suite{s, open, lose} }, cases)
}

// suite is one test.
type suite struct {
	*suitetest.Suite
	open locktest.Opener
	lose Lose
}

func (s *suite) key() pglock.Key { return pglock.NewKey(s.Name()) }

// candidate is an elector that runs on its own Locker, as if in a separate process.
type candidate struct {
	*leader.Elector
	locker *pglock.Locker
	stop   context.CancelCauseFunc
	ended  chan error // the result of Run
}

// leads is the lead function of most tests: it does nothing until it has to stop.
func leads(ctx context.Context, _ *pglock.Lock) error {
	<-ctx.Done()
	return nil
}

// elector returns an elector with short pauses.
func (s *suite) elector(l *pglock.Locker, opts ...leader.Option) *leader.Elector {
	s.Helper()
	quick := []leader.Option{leader.WithBackoff(5*time.Millisecond, 50*time.Millisecond)}
	e, err := leader.New(l, s.key(), append(quick, opts...)...)
	s.Must(err)
	return e
}

// run makes a candidate, which is stopped when the test ends.
func (s *suite) run(lead func(context.Context, *pglock.Lock) error, opts ...leader.Option) *candidate {
	s.Helper()
	l := s.open(s.T)
	c := &candidate{Elector: s.elector(l, opts...), locker: l, ended: make(chan error, 1)}
	ctx, stop := context.WithCancelCause(s.Ctx)
	c.stop = stop
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.ended <- c.Run(ctx, lead)
	}()
	s.Cleanup(func() {
		stop(nil)
		<-finished
	})
	return c
}

// waits waits until the candidate is in the queue.
func (s *suite) waits(c *candidate) {
	s.Helper()
	s.Until("the candidate waits", func() bool { return c.locker.Stats().Waiting == 1 })
}

func (s *suite) leading(c *candidate) {
	s.Helper()
	s.Until("the candidate leads", c.IsLeader)
}
