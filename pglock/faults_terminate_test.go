package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The ways to hit sessions of the Lockers under test.
const (
	terminateIt = "select pid::int8 from (select pid, pg_terminate_backend(pid) from "
	cancelIt    = "select pid::int8 from (select pid, pg_cancel_backend(pid) from "
)

// The session to hit: one, chosen at random.
const (
	hitAny = `(select pid from pg_stat_activity where datname = current_database() and application_name like $1
		order by random() limit 1) as victim) as hit`
	hitWaiter = `(select pid from pg_stat_activity where datname = current_database() and application_name like $1
		and pid in (select pid from pg_locks where locktype = 'advisory' and not granted)
		order by random() limit 1) as victim) as hit`
	hitHolder = `(select pid from pg_stat_activity where datname = current_database() and application_name like $1
		and pid in (select pid from pg_locks where locktype = 'advisory' and granted)
		order by random() limit 1) as victim) as hit`
)

// Sessions end under load, again and again. Calls fail only with errors that fit what happened, no lock is left, and
// the Lockers keep working. Where every Unlock asks the server, none succeeds if another holder got the lock meanwhile.
func TestLongFaultsLocksGoOnWhileSessionsAreTerminated(t *testing.T) {
	t.Parallel()
	for name, victim := range map[string]string{"any": hitAny, "waiters": hitWaiter, "holders": hitHolder} {
		t.Run(name, func(t *testing.T) {
			hitSessions(t, "near", terminateIt+victim, testenv.Trials(t, 15), newExclusionCheck(noticeByUnlock), pglock.WithHandoffLimit(0, 0))
		})
	}
	t.Run("far", func(t *testing.T) {
		hitSessions(t, "far", terminateIt+hitAny, testenv.Trials(t, 15), newExclusionCheck(noticeByUnlock), pglock.WithHandoffLimit(0, 0))
	})
	t.Run("four sessions", func(t *testing.T) {
		hitSessions(t, "near", terminateIt+hitAny, testenv.Trials(t, 15), newExclusionCheck(noticeByUnlock), pglock.WithHandoffLimit(0, 0), pglock.WithSessions(4))
	})
	t.Run("handing on", func(t *testing.T) {
		hitSessions(t, "near", terminateIt+hitAny, testenv.Trials(t, 15), newExclusionCheck(noticeLate))
	})
}

// A DBA ends statements, or a cancel request comes late: a statement that fails half way must not orphan a lock or
// take one from its holder.
func TestLongFaultsLocksGoOnWhileStatementsAreCancelled(t *testing.T) {
	t.Parallel()
	for distance := range distances {
		t.Run(distance, func(t *testing.T) {
			hitSessions(t, distance, cancelIt+hitAny, testenv.Trials(t, 100), newExclusionCheck(noticeBefore))
		})
	}
}

// hitSessions hits a session each time a few more locks have been granted.
func hitSessions(t *testing.T, distance, hit string, times int, check *exclusionCheck, opts ...pglock.Option) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	first, _ := distances[distance](t, db, opts...)
	second, _ := distances[distance](t, db, opts...)
	lockers, keys := []*pglock.Locker{first, second}, faultKeys(8)
	stop := keepBusy(t, 12, lockers, func(ctx context.Context, l *pglock.Locker) { lockAndVerify(ctx, t, check, l, keys) })
	for hits := 0; hits < times; {
		enough := check.count() + 1 + rand.IntN(20)
		testenv.WaitUntil(t, "locks are granted", func() bool { return check.count() >= enough })
		hits += len(numbers(t, admin, hit, faultsApplications))
	}
	stop()
	t.Logf("%d sessions hit, %d locks granted, %d lost", times, check.granted, check.lost)
	wantQuiet(t, db, lockers...)
	wantWorking(t, keys, lockers...)
}

// lockAndVerify takes a lock, asks the server about it, and releases it.
func lockAndVerify(ctx context.Context, t testing.TB, check *exclusionCheck, l *pglock.Locker, keys []pglock.Key) {
	lock, shared, err := acquireAnyWay(ctx, l, keys)
	if err != nil {
		if !plausible(err, pglock.ErrNotAcquired) {
			t.Errorf("an acquire failed with %v", err)
		}
		return
	}
	h := check.enter(t, lock, shared)
	if err := lock.Verify(ctx); !plausible(err, pglock.ErrLost) {
		t.Errorf("Verify: %v", err)
	}
	check.unlock(t, h)
}

// A lock that is unlocked while its session ends is counted once: afterwards the default bound allows as many locks as
// before.
func TestLongFaultsTheBoundIsTheSameAfterLosses(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, map[string]string{
		"max_connections": "20", "max_locks_per_transaction": "80", "max_prepared_transactions": "0",
	})
	const bound = 20 * 80 / 4
	db := testenv.On(t, server)
	admin := db.Connect(t)
	l, _ := openCounted(t, db)
	if err := l.Ping(minuteContext(t)); err != nil {
		t.Fatal(err)
	}
	keys := faultKeys(bound + 100)
	for range testenv.Trials(t, 20) {
		locks := takeUntilRefused(t, l, keys, bound)
		if len(numbers(t, admin, terminateIt+hitHolder, faultsApplications)) != 1 {
			t.Fatal("no session to terminate")
		}
		awaitDone(t, locks[len(locks)-1].Done(), "the first loss")
		unlockTogether(t, locks)
		wantQuiet(t, db, l)
	}
	for _, lock := range takeUntilRefused(t, l, keys, bound) {
		mustUnlock(t, lock)
	}
}

// takeUntilRefused takes as many locks as it can, which must be want.
func takeUntilRefused(t *testing.T, l *pglock.Locker, keys []pglock.Key, want int) (locks []*pglock.Lock) {
	t.Helper()
	for _, key := range keys {
		lock, err := l.TryLock(minuteContext(t), key)
		switch {
		case err == nil:
			locks = append(locks, lock)
		case !errors.Is(err, pglock.ErrTooManyLocks):
			t.Error(err)
		}
	}
	if len(locks) != want {
		t.Errorf("%d locks could be taken, want %d", len(locks), want)
	}
	return locks
}

// unlockTogether unlocks from many goroutines. Locks may have been lost.
func unlockTogether(t *testing.T, locks []*pglock.Lock) {
	t.Helper()
	done := make(chan error)
	for _, lock := range locks {
		go func() { done <- lock.Unlock(context.Background()) }()
	}
	for range locks {
		if err := <-done; !plausible(err, pglock.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
	}
}
