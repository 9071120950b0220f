package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Opener returns one more Locker on the server under test, closed when the test ends at the latest. Each stands for one
// process: two Lockers affect each other as two processes do.
type Opener func(t testing.TB, opts ...pglock.Option) *pglock.Locker

// Exercise runs the conformance suite: what package pglock promises of every backend. All Lockers that open returns must
// be on one server, on which no other program uses keys whose names begin with the test's. Capabilities that a backend
// may lack (Fence) are logged when they are missing.
func Exercise(t *testing.T, open Opener) {
	exercise(t, open, map[string]func(*suite){
		"ALockIsHeldUntilItIsUnlocked":        (*suite).lockAndUnlock,
		"LocksAreNotReentrant":                (*suite).notReentrant,
		"SharedLocksAreShared":                (*suite).shared,
		"ReadersDoNotStarveAWriter":           (*suite).writerNotStarved,
		"WaitersOfAProcessAreServedInOrder":   (*suite).firstComeFirstServed,
		"TheContextBoundsTheWaitOnly":         (*suite).contextBoundsTheWait,
		"ACancelledWaitLeavesNothing":         (*suite).cancelledWait,
		"MaxWaitEndsTheWait":                  (*suite).maxWait,
		"LockAllTakesAllOrNone":               (*suite).lockAll,
		"MaxHoldEndsTheLock":                  (*suite).maxHold,
		"UnlockTellsTheTruth":                 (*suite).unlock,
		"HoldersAreListed":                    (*suite).holders,
		"FencesGrow":                          (*suite).fence,
		"AnotherProcessGetsItsTurn":           (*suite).handoffLimit,
		"TwoHoldersNeverOverlap":              (*suite).mutualExclusion,
		"CloseFailsWaitersAndWaitsForHolders": (*suite).close,
	})
}

func exercise(t *testing.T, open Opener, cases map[string]func(*suite)) {
	suitetest.Run(t, patience, func(s *suitetest.Suite) *suite {
		return &suite{s, func(opts ...pglock.Option) *pglock.Locker { return open(s.T, opts...) }}
	}, cases)
}

// patience bounds each case.
const patience = time.Minute

// suite is one test.
type suite struct {
	*suitetest.Suite
	open func(...pglock.Option) *pglock.Locker
}

// key returns a key that only this test uses.
func (s *suite) key(name string) pglock.Key { return pglock.NewKey(s.Name() + "/" + name) }

func (s *suite) lock(l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) *pglock.Lock {
	s.Helper()
	lock, err := l.Lock(s.Ctx, key, opts...)
	if err != nil {
		s.Fatalf("Lock of %v: got error %v, want the lock, within %v of the case's beginning", key, err, patience)
	}
	return lock
}

func (s *suite) mustUnlock(lock *pglock.Lock) {
	s.Helper()
	s.Must(lock.Unlock(s.Ctx))
}

// attempt is a Lock that runs in the background.
type attempt = suitetest.Attempt[*pglock.Lock]

func (s *suite) start(ctx context.Context, l *pglock.Locker, key pglock.Key) *attempt {
	return suitetest.Start(func() (*pglock.Lock, error) { return l.Lock(ctx, key) })
}

// waiting waits until l has n calls waiting.
func (s *suite) waiting(l *pglock.Locker, n int) {
	s.Helper()
	s.Until("there are waiters", func() bool { return l.Stats().Waiting == n })
}

// free fails the test unless every key can be locked at once by a separate process.
func (s *suite) free(keys ...pglock.Key) {
	s.Helper()
	l := s.open()
	for _, key := range keys {
		lock, err := l.TryLock(s.Ctx, key)
		if err != nil {
			s.Errorf("the key should be free: %v", err)
			continue
		}
		s.mustUnlock(lock)
	}
}
