// Package semaphoretest provides the conformance suite of package semaphore, for every backend on which semaphores are
// used.
package semaphoretest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// Lose takes the lock on key away from the process that holds it, as a server does when it ends the session or forgets
// the lock.
type Lose func(t testing.TB, key pglock.Key)

// Exercise runs the suite. open is as in [locktest.Exercise]: each Locker represents a process. lose may be nil for a
// backend that cannot lose a lock on demand; that is logged.
func Exercise(t *testing.T, open locktest.Opener, lose Lose) {
	exercise(t, open, lose, []testCase{
		{"APermitIsHeldUntilItIsReleased", (*suite).permit},
		{"NeverMoreThanTheLimit", (*suite).limit},
		{"AReleaseServesThisProcessWithoutTheServer", (*suite).handoff},
		{"AnotherProcessGetsItsTurn", (*suite).fair},
		{"TryAcquireFailsWhileOthersAreQueued", (*suite).tryBehind},
		{"CollectedSlotsAreGivenBack", (*suite).collected},
		{"TheLimitCanDiffer", (*suite).limits},
		{"ALostSlotEndsThePermit", (*suite).lost},
		{"ALostGateIsTakenAgain", (*suite).lostGate},
		{"CancelsThatMeetGrantsLeaveNothing", (*suite).cancelStorm},
		{"MaxWaitEndsTheWait", (*suite).maxWait},
		{"MaxHoldEndsThePermit", (*suite).maxHold},
		{"CloseFailsWaiters", (*suite).close},
	})
}

// testCase is a case of the suite.
type testCase struct {
	name string
	run  func(*suite)
}

func exercise(t *testing.T, open locktest.Opener, lose Lose, cases []testCase) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			test.run(&suite{T: t, ctx: ctx, opener: open, lose: lose})
		})
	}
}

// patience is how long the suite waits for something that must happen. Reaching it is a failure; no test
// expects to.
const patience = time.Minute

// suite is one test.
type suite struct {
	*testing.T
	ctx    context.Context
	opener locktest.Opener
	lose   Lose
}

func (s *suite) key() pglock.Key { return pglock.NewKey(s.Name()) }

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// open returns the test's semaphore with n permits, in another process.
func (s *suite) open(n int, opts ...pglock.Option) *semaphore.Semaphore {
	s.Helper()
	sem, err := semaphore.New(s.opener(s.T, opts...), s.key(), n)
	s.must(err)
	return sem
}

func (s *suite) acquire(sem *semaphore.Semaphore, weight int, opts ...pglock.LockOption) *semaphore.Permit {
	s.Helper()
	p, err := sem.AcquireN(s.ctx, weight, opts...)
	s.must(err)
	return p
}

func (s *suite) release(p *semaphore.Permit) {
	s.Helper()
	s.must(p.Release(s.ctx))
}

// attempt is an AcquireN that runs in the background.
type attempt struct {
	done   chan struct{}
	permit *semaphore.Permit
	err    error
}

func (s *suite) start(ctx context.Context, sem *semaphore.Semaphore, weight int) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.permit, a.err = sem.AcquireN(ctx, weight)
	}()
	return a
}

// got waits for a permit that was asked for in the background.
func (s *suite) got(a *attempt) *semaphore.Permit {
	s.Helper()
	s.ended(a)
	s.must(a.err)
	return a.permit
}

func (s *suite) ended(a *attempt) {
	s.Helper()
	select {
	case <-a.done:
	case <-s.ctx.Done():
		s.Fatal("timed out waiting for a call of AcquireN to return")
	}
}

// waiting waits until n calls in the process of sem wait in line: from then on no call gets a permit without
// waiting.
func (s *suite) waiting(sem *semaphore.Semaphore, n int) {
	s.Helper()
	s.until("there are waiters", func() bool {
		if sem.Waiting() != n {
			return false
		}
		p, err := sem.TryAcquire(s.ctx) // fails at once when the waiters are known to wait
		if err == nil {
			s.release(p)
		}
		return errors.Is(err, pglock.ErrNotAcquired)
	})
}

func (s *suite) until(what string, done func() bool) {
	s.Helper()
	for !done() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("timed out waiting until %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// free fails the test unless a separate process gets all n permits without waiting, once the others have left the gate.
func (s *suite) free(n int) {
	s.Helper()
	sem := s.open(n)
	for range n {
		var p *semaphore.Permit
		s.until("the next permit is free", func() bool {
			var err error
			p, err = sem.TryAcquire(s.ctx)
			if err != nil && !errors.Is(err, pglock.ErrNotAcquired) {
				s.Fatal(err)
			}
			return err == nil
		})
		defer s.release(p)
	}
}
