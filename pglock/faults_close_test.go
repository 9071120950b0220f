package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Lockers that compete for the same keys are closed in the middle of their work, some with a context that ends before
// the holders are done. Every call that runs or waits returns and says why, and when the last Close has returned no
// goroutine is left.
func TestCloseUnderLoad(t *testing.T) {
	db := testenv.Database(t)
	for trial := range 3 {
		closeInTheMiddle(t, db, trial%2 == 0)
		testenv.WaitUntil(t, "pg_locks is empty", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
	}
}

func closeInTheMiddle(t *testing.T, db *testenv.DB, patient bool) {
	before := goleak.IgnoreCurrent()
	keys, check := faultKeys(8), newExclusionCheck(noticeBefore)
	var lockers []*pglock.Locker
	var workers sync.WaitGroup
	for range 2 {
		l, err := pglock.NewWithConfig(db.Config(t))
		must.Succeed(t, err)
		lockers = append(lockers, l)
		for range 12 {
			workers.Go(func() {
				for workUntilClosed(t, check, l, keys) {
				}
			})
		}
	}
	enough := 1 + rand.IntN(200)
	testenv.WaitUntil(t, "the workers are running", func() bool { return check.count() >= enough })
	for _, l := range lockers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if !patient {
			cancel()
		}
		if err := l.Close(ctx); err != nil && (patient || !errors.Is(err, context.Canceled)) {
			t.Errorf("Close: %v", err)
		}
		cancel()
	}
	workers.Wait()
	for _, l := range lockers {
		if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
			t.Errorf("after Close: %+v", stats)
		}
	}
	if err := goleak.Find(before); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// workUntilClosed takes and releases a lock. It returns false when the Locker is closed.
func workUntilClosed(t *testing.T, check *exclusionCheck, l *pglock.Locker, keys []pglock.Key) bool {
	lock, shared, err := acquireAnyWay(context.Background(), l, keys)
	switch {
	case errors.Is(err, pglock.ErrClosed):
		return false
	case err != nil:
		if !plausible(err, pglock.ErrNotAcquired) {
			t.Errorf("an acquire failed with %v", err)
		}
		return true
	}
	check.unlock(t, check.enter(t, lock, shared))
	return true
}
