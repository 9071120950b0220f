package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Thousands of acquires are cancelled at random moments: in the queue of the process, on their way to the server, while
// they wait there, or when they are granted. After every round pg_locks is empty although the sessions are still open.
// Few sessions are opened, however many acquires are cancelled.
func TestFaultsCancelsLeaveNothingAndKeepTheSessions(t *testing.T) {
	t.Parallel()
	for distance := range distances {
		t.Run(distance, func(t *testing.T) { cancelAtRandom(t, distance, testenv.Trials(t, 1500)) })
	}
}

func cancelAtRandom(t *testing.T, distance string, times int) {
	db := testenv.Database(t)
	first, openedFirst := distances[distance](t, db)
	second, openedSecond := distances[distance](t, db)
	lockers, keys := []*pglock.Locker{first, second}, faultKeys(6)
	warmUp(t, db, lockers, keys)

	const rounds = 10
	var cancelledOnes atomic.Int64
	for range rounds {
		check := newExclusionCheck(noticeBefore)
		var workers sync.WaitGroup
		for worker := range 16 {
			workers.Go(func() {
				for range times / rounds / 16 {
					if cancelOne(t, check, lockers[worker%2], keys) {
						cancelledOnes.Add(1)
					}
				}
			})
		}
		workers.Wait()
		wantQuiet(t, db, lockers...)
	}
	t.Logf("%d acquires were cancelled; %d and %d sessions were opened", cancelledOnes.Load(), openedFirst.Load(), openedSecond.Load())
	// Sessions beyond those that are kept for later waits are opened and closed, with or without cancels.
	most := someSessions + int32(cancelledOnes.Load()/1000)
	for _, opened := range []*atomic.Int32{openedFirst, openedSecond} {
		if n := opened.Load(); n > most {
			t.Errorf("%d sessions were opened: cancels have ended some", n)
		}
	}
	wantWorking(t, keys, lockers...)
}

// warmUp makes the Lockers open the sessions they need.
func warmUp(t *testing.T, db *testenv.DB, lockers []*pglock.Locker, keys []pglock.Key) {
	t.Helper()
	holder := db.Connect(t)
	plainLock(t, holder, keys...)
	served := manyWaiters(t, 1, keys, lockers...)
	plainUnlock(t, holder, keys...)
	served()
}

// cancelOne cancels an acquire at a random moment, and reports whether that was before it got the lock.
func cancelOne(t *testing.T, check *exclusionCheck, l *pglock.Locker, keys []pglock.Key) bool {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(rand.N(5*time.Millisecond), cancel)
	defer timer.Stop()
	defer cancel()
	var lock *pglock.Lock
	var err error
	shared := rand.IntN(3) == 0
	opts := []pglock.LockOption{}
	if shared {
		opts = append(opts, pglock.Shared())
	}
	if rand.IntN(4) == 0 {
		lock, err = l.LockAll(ctx, some(keys, 2), opts...)
	} else {
		lock, err = l.Lock(ctx, some(keys, 1)[0], opts...)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a cancelled acquire: %v", err)
		}
		return true
	}
	h := check.enter(t, lock, shared)
	if err := lock.Err(); err != nil {
		t.Errorf("a lock that was just granted: %v", err)
	}
	check.unlock(t, h)
	return false
}

// Where no second connection to the server can be made, as through some tunnels, there are no cancel requests. A wait that
// ends leaves the server's queue all the same, and its session serves the next one.
func TestFaultsACancelledWaitLeavesTheQueueThoughNoConnectionCanBeMade(t *testing.T) {
	db := testenv.Database(t)
	var refuses atomic.Bool
	config := db.Config(t)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if refuses.Load() {
			return nil, errors.New("the test refuses connections")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	l, opened := openConfig(t, config, pglock.WithLease(24*time.Hour))
	key, holder := pglock.NewKey("k"), db.Connect(t)
	plainLock(t, holder, key)
	var before int32
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.Lock(ctx, key)
			failed <- err
		}()
		db.WaitForWaiters(t, 1)
		if before == 0 {
			before = opened.Load()
		}
		refuses.Store(true)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a cancelled wait: %v", err)
		}
		for _, lock := range db.AdvisoryLocks(t) {
			if !lock.Granted {
				t.Errorf("after Lock has returned: %v", lock)
			}
		}
	}
	if n := opened.Load(); n != before {
		t.Errorf("%d sessions were opened, %d before the first cancel", n, before)
	}
	refuses.Store(false)
	plainUnlock(t, holder, key)
	wantWorking(t, []pglock.Key{key}, l)
}
