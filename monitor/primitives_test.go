package monitor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// primitivesLocker returns a Locker that records names.
func primitivesLocker(t *testing.T, db *testenv.DB) *pglock.Locker {
	t.Helper()
	l, err := pglock.NewWithConfig(db.Config(t), pglock.WithNames())
	return must.Closing(t, l, err)
}

// awaitLock takes snapshots until one has a lock for which is returns true.
func awaitLock(t *testing.T, db pglock.DB, what string, is func(monitor.Lock) bool) *monitor.Snapshot {
	t.Helper()
	var last *monitor.Snapshot
	defer func() {
		if t.Failed() {
			for _, lock := range last.Locks {
				t.Logf("%s: %d holders, %d waiters, names %q", lock.Label(), len(lock.Holders), len(lock.Waiters), last.NamesMissing)
			}
		}
	}()
	testenv.WaitUntil(t, what, func() bool {
		s, err := monitor.Take(t.Context(), db)
		must.Succeed(t, err)
		last = s
		for _, lock := range s.Locks {
			if lock.Database == s.Database && is(lock) {
				return true
			}
		}
		return false
	})
	return last
}

func TestSnapshotSemaphoreIsOneLineWithUsedAndTotal(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool := db.Pool(t)
	key := pglock.NewKey("thumbnails")
	open := func(n int) *semaphore.Semaphore {
		sem, err := semaphore.New(primitivesLocker(t, db), key, n)
		must.Succeed(t, err)
		return sem
	}
	other, large := open(3), open(3)
	permit, err := large.AcquireN(t.Context(), 2)
	must.Succeed(t, err)
	third, err := open(3).Acquire(t.Context())
	must.Succeed(t, err)
	waited := make(chan *semaphore.Permit, 2)
	for _, sem := range []*semaphore.Semaphore{other, large} { // one holds the gate, and one waits for it
		go func() {
			p, err := sem.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			waited <- p
		}()
	}
	full := func(l monitor.Lock) bool {
		return l.Kind == "semaphore" && l.Used == 3 && len(l.Waiters) == 2
	}
	s := awaitLock(t, pool, "the semaphore is one line without the schema", func(l monitor.Lock) bool {
		return full(l) && l.Limit == 0 && len(l.Holders) == 3
	})
	wantOneLock(t, s)
	for wait := range s.Waits() { // the one at the gate waits for those that have the permits
		if wait.Lock != nil && wait.Lock.Kind == "semaphore" && len(wait.BlockedBy) == 0 {
			t.Errorf("%d waits for no session", wait.PID)
		}
	}
	must.Succeed(t, migrations.Up(t.Context(), pool))
	must.Succeed(t, third.Release(t.Context()))
	first := <-waited
	// The name could not be recorded before. The next waiter records it.
	go func() {
		p, err := large.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		waited <- p
	}()
	s = awaitLock(t, pool, "it has its name and limit", func(l monitor.Lock) bool {
		return l.Kind == "semaphore" && len(l.Waiters) > 0 && l.Label() == "semaphore thumbnails, 3 of 3 used"
	})
	wantOneLock(t, s)
	for _, p := range []*semaphore.Permit{permit, first} {
		if err := p.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := (<-waited).Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// An election is recognized on both backends, and what marks it is not shown.
func TestSnapshotLeaderIsShownAsLeader(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *testenv.DB) *pglock.Locker{
		"sessions": primitivesLocker, "rows": func(t *testing.T, db *testenv.DB) *pglock.Locker { return rowLocker(t, db.Pool(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Installed(t)
			pool, l, key := db.Pool(t), open(t, db), pglock.NewKey("scheduler")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ended := make(chan error, 1)
			go func() {
				ended <- leader.Run(ctx, l, key, func(ctx context.Context, _ *pglock.Lock) error {
					<-ctx.Done()
					return nil
				})
			}()
			wantOneLock(t, awaitLock(t, pool, "there is a leader", func(lock monitor.Lock) bool {
				return lock.Kind == "leader" && strings.HasPrefix(lock.Label(), "leader of "+lock.Key) && len(lock.Holders) == 1
			}))
			cancel()
			<-ended
			plain, err := l.Lock(t.Context(), key)
			must.Succeed(t, err)
			awaitLock(t, pool, "it is a lock again", func(l monitor.Lock) bool { return l.Kind == "lock" })
			must.Succeed(t, plain.Unlock(t.Context()))
		})
	}
}

func TestSnapshotTickIsShownAsTick(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool := db.Pool(t)
	job, err := schedule.New(primitivesLocker(t, db), pglock.NewKey("nightly-report"))
	must.Succeed(t, err)
	err = job.Run(t.Context(), time.Unix(0, 0), func(context.Context, *pglock.Lock) error {
		s := awaitLock(t, pool, "a tick is run", func(l monitor.Lock) bool {
			return l.Kind == "tick" && l.Label() == "tick of nightly-report" && len(l.Holders) == 1
		})
		wantOneLock(t, s)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// wantOneLock fails the test unless there is one lock in the connected database.
func wantOneLock(t *testing.T, s *monitor.Snapshot) {
	t.Helper()
	var keys []string
	for _, lock := range s.Locks {
		if lock.Database == s.Database {
			keys = append(keys, lock.Label())
		}
	}
	if len(keys) != 1 {
		t.Errorf("the locks are %q, want one", keys)
	}
}

// A stranger's mark, of a session or in a row, says nothing about the waits of others, and a candidate's own does.
func TestOnlyTheWaiterSaysThatItsWaitIsExpected(t *testing.T) {
	db := testenv.Installed(t)
	key := pglock.NewKey("invoice:42").ID()
	session(t, db, "SELECT pg_advisory_lock("+fmt.Sprint(key.Number)+")")
	startWaiter(t, db, "SELECT pg_advisory_lock("+fmt.Sprint(key.Number)+")")
	stranger := connectAs(t, db.Role(t, "stranger"))
	for _, mark := range []lockkeys.Mark{lockkeys.LeaderMark, lockkeys.TickMark} {
		class, object, _ := mark.Of(key).Pair()
		execute(t, stranger, fmt.Sprintf("SELECT pg_advisory_lock_shared(%d, %d)", class, object))
		execute(t, stranger, fmt.Sprintf("SELECT pg_advisory_lock_shared(%d)", key.Number+1)) // not of this key
	}
	pool := db.Pool(t)
	if lock := find(t, take(t, pool), pglock.NewKey("invoice:42")); lock.Kind != "lock" || lock.Waiters[0].Expected {
		t.Errorf("a stranger's mark counts: %s, %+v", lock.Kind, lock.Waiters[0])
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- leader.Run(ctx, primitivesLocker(t, db), pglock.NewKey("invoice:42"), func(context.Context, *pglock.Lock) error { return nil })
	}()
	awaitLock(t, pool, "the candidate's wait is expected, and no other", func(l monitor.Lock) bool {
		return len(l.Waiters) == 2 && !l.Waiters[0].Expected && l.Waiters[1].Expected
	})
	cancel()
	<-ended
}
