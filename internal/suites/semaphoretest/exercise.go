// Package semaphoretest provides the conformance suite of package semaphore, for every backend on which semaphores are
// used.
package semaphoretest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
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
	exercise(t, open, lose, map[string]func(*suite){
		"APermitIsHeldUntilItIsReleased":      (*suite).permit,
		"NeverMoreThanTheLimit":               (*suite).limit,
		"AnotherProcessGetsItsTurn":           (*suite).fair,
		"TryAcquireFailsWhileOthersAreQueued": (*suite).tryBehind,
		"ALostSlotEndsThePermit":              (*suite).lost,
		"ALostGateIsTakenAgain":               (*suite).lostGate,
	})
}

func exercise(t *testing.T, open locktest.Opener, lose Lose, cases map[string]func(*suite)) {
	suitetest.Run(t, time.Minute, func(s *suitetest.Suite) *suite { return &suite{s, open, lose} }, cases)
}

// suite is one test.
type suite struct {
	*suitetest.Suite
	opener locktest.Opener
	lose   Lose
}

func (s *suite) key() pglock.Key { return pglock.NewKey(s.Name()) }

// open returns the test's semaphore with n permits, in another process.
func (s *suite) open(n int, opts ...pglock.Option) *semaphore.Semaphore {
	s.Helper()
	sem, err := semaphore.New(s.opener(s.T, opts...), s.key(), n)
	s.Must(err)
	return sem
}

func (s *suite) acquire(sem *semaphore.Semaphore, weight int, opts ...pglock.LockOption) *semaphore.Permit {
	s.Helper()
	p, err := sem.AcquireN(s.Ctx, weight, opts...)
	s.Must(err)
	return p
}

func (s *suite) release(p *semaphore.Permit) {
	s.Helper()
	s.Must(p.Release(s.Ctx))
}

// attempt is an AcquireN that runs in the background.
type attempt = suitetest.Attempt[*semaphore.Permit]

func (s *suite) start(ctx context.Context, sem *semaphore.Semaphore, weight int) *attempt {
	return suitetest.Start(func() (*semaphore.Permit, error) { return sem.AcquireN(ctx, weight) })
}

// waiting waits until n calls in the process of sem wait in line: from then on no call gets a permit without
// waiting.
func (s *suite) waiting(sem *semaphore.Semaphore, n int) {
	s.Helper()
	s.Until("there are waiters", func() bool {
		if sem.Waiting() != n {
			return false
		}
		p, err := sem.TryAcquire(s.Ctx) // fails at once when the waiters are known to wait
		if err == nil {
			s.release(p)
		}
		return errors.Is(err, pglock.ErrNotAcquired)
	})
}

// free fails the test unless a separate process gets all n permits without waiting, once the others have left the gate.
func (s *suite) free(n int) {
	s.Helper()
	sem := s.open(n)
	for range n {
		var p *semaphore.Permit
		s.Until("the next permit is free", func() bool {
			var err error
			p, err = sem.TryAcquire(s.Ctx)
			if err != nil && !errors.Is(err, pglock.ErrNotAcquired) {
				s.Fatal(err)
			}
			return err == nil
		})
		defer s.release(p)
	}
}
