package semaphore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/semaphoretest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func TestSemaphoreOnMemoryPassesTheSuite(t *testing.T) {
	server := locktest.NewServer()
	semaphoretest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := server.Locker(opts...)
		return must.Closing(t, l, err)
	}, func(t testing.TB, key pglock.Key) { server.Lose(key) })
}

func TestSemaphoreOnPostgresPassesTheSuite(t *testing.T) {
	db := testenv.Database(t)
	semaphoretest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return openLocker(t, db, opts...)
	}, func(t testing.TB, key pglock.Key) { db.TerminateHolder(t, key.Int64(), int16(key.ID().Space)) })
}

// The permits may be held by the process that asks.
func TestSemaphoreBlamesNoOtherSessionForItsOwnPermits(t *testing.T) {
	l, err := locktest.NewServer().Locker()
	sem, err := semaphore.New(must.Closing(t, l, err), pglock.NewKey("s"), 1)
	must.Succeed(t, err)
	permit, err := sem.TryAcquire(t.Context())
	must.Succeed(t, err)
	_, err = sem.TryAcquire(t.Context())
	if !errors.Is(err, pglock.ErrNotAcquired) || strings.Contains(err.Error(), "another session") {
		t.Error(err)
	}
	if err := permit.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The process at the head of the line looks for a slot soon at first, and then less and less often: a slot is idle for at
// most a quarter of the time that was waited for it, and never longer than 20 ms.
func TestSemaphoreLooksSoonAtFirst(t *testing.T) {
	for _, released := range []time.Duration{1, 6, 30, 50, 150} {
		released *= time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			server := locktest.NewServer()
			var sems [2]*semaphore.Semaphore
			for i := range sems {
				l, err := server.Locker()
				if sems[i], err = semaphore.New(must.Closing(t, l, err), pglock.NewKey("s"), 1); err != nil {
					t.Fatal(err)
				}
			}
			held, err := sems[0].Acquire(t.Context())
			must.Succeed(t, err)
			time.AfterFunc(released, func() {
				if err := held.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			began := time.Now()
			permit, err := sems[1].Acquire(t.Context())
			must.Succeed(t, err)
			idle := time.Since(began) - released
			if most := min(released/4+time.Millisecond, 20*time.Millisecond); idle > most {
				t.Errorf("a permit that was released after %v was idle for %v, want at most %v", released, idle, most)
			}
			if err := permit.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// openLocker returns a Locker on db that is closed when the test ends, if not before.
func openLocker(t testing.TB, db *testenv.DB, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t), opts...)
	return must.Closing(t, l, err)
}
