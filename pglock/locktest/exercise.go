package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Opener returns one more Locker on the server under test, closed when the test ends at the latest. Each stands for one
// process: two Lockers affect each other as two processes do.
type Opener func(t testing.TB, opts ...pglock.Option) *pglock.Locker

// Exercise runs the conformance suite: what package pglock promises of every backend. All Lockers that open returns must
// be on one server, on which no other program uses keys whose names begin with the test's. Capabilities that a backend
// may lack (Fence) are logged when they are missing.
func Exercise(t *testing.T, open Opener) {
	exercise(t, open, []testCase{
		{"ALockIsHeldUntilItIsUnlocked", (*suite).lockAndUnlock},
		{"LocksAreNotReentrant", (*suite).notReentrant},
		{"SharedLocksAreShared", (*suite).shared},
		{"ReadersDoNotStarveAWriter", (*suite).writerNotStarved},
		{"WaitersOfAProcessAreServedInOrder", (*suite).firstComeFirstServed},
		{"TheContextBoundsTheWaitOnly", (*suite).contextBoundsTheWait},
		{"ACancelledWaitLeavesNothing", (*suite).cancelledWait},
		{"MaxWaitEndsTheWait", (*suite).maxWait},
		{"LockAllTakesAllOrNone", (*suite).lockAll},
		{"LockAllCannotDeadlock", (*suite).lockAllOrder},
		{"DeadlocksOfAProcessEnd", (*suite).deadlock},
		{"MaxHoldEndsTheLock", (*suite).maxHold},
		{"UnlockTellsTheTruth", (*suite).unlock},
		{"HoldersAreListed", (*suite).holders},
		{"FencesGrow", (*suite).fence},
		{"AnotherProcessGetsItsTurn", (*suite).handoffLimit},
		{"TwoHoldersNeverOverlap", (*suite).mutualExclusion},
		{"CancelsThatMeetGrantsLeaveNothing", (*suite).cancelStorm},
		{"CloseFailsWaitersAndWaitsForHolders", (*suite).close},
	})
}

// testCase is a case of a suite.
type testCase struct {
	name string
	run  func(*suite)
}

func exercise(t *testing.T, open Opener, cases []testCase) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			test.run(&suite{T: t, ctx: ctx, open: func(opts ...pglock.Option) *pglock.Locker { return open(t, opts...) }})
		})
	}
}

// patience bounds each case. A case that takes longer fails. It is generous for machines that are slow.
const patience = time.Minute

// suite is one test.
type suite struct {
	*testing.T
	ctx  context.Context
	open func(...pglock.Option) *pglock.Locker
}

// key returns a key that only this test uses.
func (s *suite) key(name string) pglock.Key { return pglock.NewKey(s.Name() + "/" + name) }

// must fails the test on an error.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) lock(l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) *pglock.Lock {
	s.Helper()
	lock, err := l.Lock(s.ctx, key, opts...)
	if err != nil {
		s.Fatalf("Lock of %v: got error %v, want the lock, within %v of the case's beginning", key, err, patience)
	}
	return lock
}

func (s *suite) mustUnlock(lock *pglock.Lock) {
	s.Helper()
	s.must(lock.Unlock(s.ctx))
}

// attempt is a Lock that runs in the background.
type attempt struct {
	done chan struct{}
	lock *pglock.Lock
	err  error
}

func (s *suite) start(ctx context.Context, l *pglock.Locker, key pglock.Key) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lock, a.err = l.Lock(ctx, key)
	}()
	return a
}

// waiting waits until l has n calls waiting.
func (s *suite) waiting(l *pglock.Locker, n int) {
	s.Helper()
	s.until("there are waiters", func() bool { return l.Stats().Waiting == n })
}

func (s *suite) until(what string, done func() bool) {
	s.Helper()
	for !done() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("timed out after %v waiting until %s", patience, what)
		case <-time.After(time.Millisecond):
		}
	}
}

// got waits for a lock that was asked for in the background.
func (s *suite) got(a *attempt) *pglock.Lock {
	s.Helper()
	s.ended(a)
	s.must(a.err)
	return a.lock
}

func (s *suite) ended(a *attempt) {
	s.Helper()
	select {
	case <-a.done:
	case <-s.ctx.Done():
		s.Fatalf("after %v: a call of Lock has not returned", patience)
	}
}

// free fails the test unless every key can be locked at once by a separate process.
func (s *suite) free(keys ...pglock.Key) {
	s.Helper()
	l := s.open()
	for _, key := range keys {
		lock, err := l.TryLock(s.ctx, key)
		if err != nil {
			s.Errorf("the key should be free: %v", err)
			continue
		}
		s.mustUnlock(lock)
	}
}
