package pglock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// smallLockTable starts a server whose lock table has nominally smallTable entries: max_locks_per_transaction for each
// of max_connections (https://www.postgresql.org/docs/current/runtime-config-locks.html). In fact there is room for
// some more.
func smallLockTable(t *testing.T) *testenv.DB {
	return testenv.On(t, testenv.NewServer(t, map[string]string{
		"max_connections": "40", "max_locks_per_transaction": "10", "max_prepared_transactions": "0", "autovacuum": "off",
	}))
}

const smallTable = 40 * 10

// watcher returns a connection that can read pg_locks even when the table is full, since it has done so before.
func watcher(t *testing.T, db *testenv.DB) *pgx.Conn {
	conn := db.Connect(t)
	heldNow(t, conn)
	return conn
}

// heldNow lists the keys of all advisory locks that are held, in order.
func heldNow(t *testing.T, conn *pgx.Conn) []int64 {
	t.Helper()
	return numbers(t, conn, `select classid::int8 << 32 | objid::int8 from pg_locks
		where locktype = 'advisory' and granted and not (objsubid = 2 and classid = 1885826155) order by 1`)
}

// tryTogether asks for all the keys at once, from as many goroutines as there are keys.
func tryTogether(t *testing.T, l *pglock.Locker, keys []pglock.Key) (granted []*pglock.Lock, refused []pglock.Key) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			ask := l.TryLock
			if i%2 == 0 { // the key is free, so there is nothing to wait for
				ask = l.Lock
			}
			lock, err := ask(minuteContext(t), key)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted = append(granted, lock)
			case errors.Is(err, pglock.ErrTooManyLocks) && plausible(err, pglock.ErrTooManyLocks):
				refused = append(refused, key)
			default:
				t.Errorf("lock %s: %v", key, err)
			}
		})
	}
	all.Wait()
	return granted, refused
}

// wantHeld compares the locks that the Locker reports with those on the server.
func wantHeld(t *testing.T, conn *pgx.Conn, l *pglock.Locker, locks []*pglock.Lock) {
	t.Helper()
	said := make([]int64, len(locks))
	for i, lock := range locks {
		said[i] = lock.Key().Int64()
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(said)
	if held := heldNow(t, conn); !slices.Equal(held, said) {
		t.Errorf("the Locker reports %d locks, and the server %d or different ones", len(said), len(held))
	}
	if stats := l.Stats(); stats.Held != len(locks) || stats.Waiting != 0 || stats.Lost != 0 {
		t.Errorf("with %d locks: %+v", len(locks), stats)
	}
}

// The server's lock table overflows in the middle of statements that lock and release many keys at once. Calls that
// succeed hold their locks, calls that are refused do not, and the sessions stay usable.
func TestLongFaultsTheLockTableOverflowsInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	for distance := range distances {
		t.Run(distance, func(t *testing.T) { overflow(t, distance) })
	}
}

func overflow(t *testing.T, distance string) {
	db := smallLockTable(t)
	conn := watcher(t, db)
	l, opened := distances[distance](t, db, pglock.WithMaxHeld(1_000_000))
	testenv.WaitUntil(t, "both mux sessions are open, since a full lock table lets none in", func() bool {
		granted, _ := tryTogether(t, l, faultKeys(64))
		unlockTogether(t, granted)
		return sessionsNow(t, conn) == 2
	})
	keys := faultKeys(10 * smallTable)
	for range 3 {
		granted, refused := tryTogether(t, l, keys)
		t.Logf("%d granted, %d refused", len(granted), len(refused))
		if len(refused) == 0 {
			t.Fatal("the lock table has not overflowed, so this test shows nothing")
		}
		wantHeld(t, conn, l, granted)

		half := len(granted) / 2
		var unlocking sync.WaitGroup
		for _, lock := range granted[:half] {
			unlocking.Go(func() { mustUnlock(t, lock) })
		}
		again, _ := tryTogether(t, l, refused) // there is room for some of them
		unlocking.Wait()
		granted = append(granted[half:], again...)
		wantHeld(t, conn, l, granted)

		unlockTogether(t, granted)
		wantHeld(t, conn, l, nil)
		wantOthersToWork(t, db)
	}
	if n := opened.Load(); n > 2 {
		t.Errorf("%d sessions were opened, want no more than the first two: an overflow is no reason to end one", n)
	}
}

// A Locker that has not connected yet, and so does not know the server's limits, is asked for more locks than the
// server has room for.
func TestFaultsTheDefaultBoundProtectsTheServer(t *testing.T) {
	t.Parallel()
	db := smallLockTable(t)
	conn := watcher(t, db)
	for range 3 {
		l, _ := openCounted(t, db)
		granted, refused := tryTogether(t, l, faultKeys(10*smallTable))
		if len(granted) != smallTable/4 {
			t.Errorf("%d locks were granted and %d refused, want %d granted", len(granted), len(refused), smallTable/4)
		}
		wantHeld(t, conn, l, granted)
		wantOthersToWork(t, db)
		unlockTogether(t, granted)
		wantHeld(t, conn, l, nil)
	}
}

// wantOthersToWork checks what a full lock table would make impossible.
func wantOthersToWork(t *testing.T, db *testenv.DB) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), db.Config(t).ConnConfig)
	if err != nil {
		t.Fatalf("another session cannot connect: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `begin; create table t (n int primary key); select pg_advisory_xact_lock(1);
		rollback`); err != nil {
		t.Errorf("another session cannot lock: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
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

// Where a new connection finds the lock table full, all say so.
func TestFaultsAFullLockTableIsTheSameErrorEverywhere(t *testing.T) {
	t.Parallel()
	db := smallLockTable(t)
	migrate(t, db)
	l := openLocker(t, db)
	lock := mustLock(t, l, pglock.NewKey("held"))
	filler, conn := db.Connect(t), db.Connect(t)
	for {
		if _, err := filler.Exec(t.Context(), "SELECT pg_advisory_lock(n) FROM generate_series(1, 100000) AS n"); err != nil {
			break
		}
	}
	rows, err := rowlock.New(db.Pool(t))
	must.Succeed(t, err)
	defer rows.Close(t.Context())
	job, err := schedule.New(l, pglock.NewKey("job"))
	must.Succeed(t, err)
	nothing := func(context.Context, *pglock.Lock) error { return nil }
	inTx := func(opts ...pglock.TxOption) error {
		return pglock.BeginFunc(t.Context(), conn, pglock.NewKey("k"), func(context.Context, pgx.Tx) error { return nil }, opts...)
	}
	for name, call := range map[string]func() error{
		"Lock":     func() error { _, err := openLocker(t, db).Lock(t.Context(), pglock.NewKey("k")); return err },
		"rows":     func() error { _, err := rows.Lock(t.Context(), pglock.NewKey("k")); return err },
		"Fence":    func() error { _, err := lock.Fence(t.Context()); return err },
		"LockTx":   func() error { return inTx() },
		"MaxWait":  func() error { return inTx(pglock.MaxWait(txLong)) },
		"schedule": func() error { return job.Run(t.Context(), time.Now(), nothing) },
	} {
		if err := call(); !errors.Is(err, pglock.ErrTooManyLocks) || errors.Is(err, pglock.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	txExec(t, filler, "SELECT pg_advisory_unlock_all()") // or the look for what is left may find no room
	mustUnlock(t, lock)
}
