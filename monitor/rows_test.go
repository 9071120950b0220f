package monitor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

var invoice = pglock.NewKey("invoice:42")

// rowLocker returns a Locker with locks in rows, which is closed when the test ends.
func rowLocker(t *testing.T, pool *pgxpool.Pool, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := rowlock.New(pool, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx) // it ends what is held
	})
	return l
}

// holdRow takes a lock until the test ends.
func holdRow(t *testing.T, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) *pglock.Lock {
	t.Helper()
	lock, err := l.Lock(t.Context(), key, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = lock.Unlock(context.Background()) })
	return lock
}

// waitRow waits for a lock until the test ends. The last to wait gives up first: t's context would end all at once, and a grant
// may come first where a predecessor gives up.
func waitRow(t *testing.T, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		_, err := l.Lock(ctx, key, opts...)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

// rowLockOf returns the lock in a row of a key, or nil.
func rowLockOf(s *monitor.Snapshot, key pglock.Key) *monitor.Lock {
	for i := range s.Locks {
		if s.Locks[i].InRow && s.Locks[i].ID() == key.ID() {
			return &s.Locks[i]
		}
	}
	return nil
}

// inRow chooses the locks in rows, which are of the test's own database: tests in parallel wait for other locks on its server.
func inRow(l *monitor.Lock) bool { return l.InRow }

// inRows returns the locks in rows.
func inRows(s *monitor.Snapshot) []monitor.Lock {
	return slices.DeleteFunc(slices.Clone(s.Locks), func(l monitor.Lock) bool { return !l.InRow })
}

// takeWaiting takes a snapshot in which so many processes wait for the lock in a row.
func takeWaiting(t *testing.T, db pglock.DB, key pglock.Key, waiters int) (s *monitor.Snapshot) {
	t.Helper()
	testenv.WaitUntil(t, "waiters in the snapshot", func() bool {
		s = take(t, db)
		lock := rowLockOf(s, key)
		return lock != nil && len(lock.Waiters) == waiters
	})
	return s
}

// Two processes that wait for each other's locks may have a task each that waits for ever.
func TestCyclesOfProcessesAreFound(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool, second := db.Pool(t), pglock.Int64Key(2)
	left, right := rowLocker(t, pool), rowLocker(t, pool)
	holdRow(t, left, invoice)
	holdRow(t, right, second)
	waitRow(t, left, second)
	takeWaiting(t, pool, second, 1)
	waitRow(t, right, invoice)
	s := takeWaiting(t, pool, invoice, 1)
	holder, waiter := rowLockOf(s, invoice).Holders[0], rowLockOf(s, invoice).Waiters[0]
	if len(s.Cycles) != 1 || s.Cycles[0].Certain || !strings.Contains(s.Cycles[0].String(), holder.Lease.Holder+" → "+waiter.Lease.Holder) {
		t.Errorf("the cycles are %v", s.Cycles)
	}
	if n := s.Tree().Node(holder.ID()); !n.Deadlock || n.Certain {
		t.Errorf("%+v", n)
	}
}

func TestLocksInRowsAreShownWithTheirHoldersAndWaiters(t *testing.T) {
	t.Parallel()
	db := registered(t, "invoice:42")
	pool := db.Pool(t)
	billing := rowLocker(t, pool, pglock.WithApplicationName("billing"))
	held, pair := holdRow(t, billing, invoice), pglock.PairKey(-7, -42)
	holdRow(t, billing, pair, pglock.Shared())
	waitRow(t, rowLocker(t, pool, pglock.WithApplicationName("shop")), invoice)
	takeWaiting(t, pool, invoice, 1)
	generation, err := held.Fence(t.Context())
	must.Succeed(t, err)
	for _, mode := range queryModes {
		s := take(t, poolIn(t, db, mode))
		if s.RowLocksMissing != "" || len(inRows(s)) != 2 {
			t.Fatalf("%v: %q, %+v", mode, s.RowLocksMissing, inRows(s))
		}
		lock, other := rowLockOf(s, invoice), rowLockOf(s, pair)
		if lock.Key != "invoice:42" || !slices.Equal(lock.Names, []string{"invoice:42"}) || lock.Space != "bigint" || lock.Kind != "lock" ||
			len(lock.Holders) != 1 || len(lock.Waiters) != 1 {
			t.Fatalf("%v: %+v", mode, lock)
		}
		holder, waiter := lock.Holders[0], lock.Waiters[0]
		left, known := holder.Lease.Left(s.TakenAt)
		if holder.Application != "billing" || holder.Mode != "exclusive" || holder.Generation != generation || holder.Lease.PID == 0 ||
			holder.Lease.Host == "" || holder.User == "" || len(holder.Hidden) != 0 || !known || left <= 0 || holder.SeenSince.After(s.TakenAt) {
			t.Errorf("%v: the holder is %+v", mode, holder)
		}
		if waiter.Application != "shop" || len(waiter.BlockedBy) != 1 || waiter.BlockedBy[0].ID() != holder.ID() {
			t.Errorf("%v: the waiter is %+v", mode, waiter)
		}
		if other.Key != "@-7/-42" || other.Class != -7 || other.Object != -42 || other.Holders[0].Mode != "shared" ||
			other.Holders[0].ID() != holder.ID() {
			t.Errorf("%v: the pair is %+v", mode, other)
		}
	}
}

// The slots and the gate of a semaphore are one lock in rows too, with its name. Who is first in line waits for the holders.
func TestASemaphoreInRowsIsOneLine(t *testing.T) {
	t.Parallel()
	pool := testenv.Installed(t).Pool(t)
	ctx, cancel := context.WithCancel(t.Context())
	acquire := func() error {
		sem, err := semaphore.New(rowLocker(t, pool, pglock.WithNames()), pglock.NewKey("thumbnails"), 2)
		if err == nil {
			_, err = sem.Acquire(ctx)
		}
		return err
	}
	must.Succeed(t, acquire())
	must.Succeed(t, acquire())
	var waiting sync.WaitGroup
	for range 2 { // one holds the gate, and one waits for it
		waiting.Go(func() { _ = acquire() })
	}
	t.Cleanup(waiting.Wait)
	t.Cleanup(cancel)
	s := awaitLock(t, pool, "the semaphore is one line", func(l monitor.Lock) bool {
		return l.Label() == "semaphore thumbnails, 2 of 2 used (row)" && len(l.Holders) == 2 && len(l.Waiters) == 2
	})
	if h := s.ActionOf(inRow, nil); len(inRows(s)) != 1 || h.Expected != 2 || h.Waiting != 0 {
		t.Errorf("%+v; %v", inRows(s), h)
	}
	for _, waiter := range inRows(s)[0].Waiters {
		if waiter.Lease == nil || len(waiter.BlockedBy) == 0 {
			t.Errorf("%+v waits for no process", waiter)
		}
	}
}

func TestLocksInRowsNeedAGrant(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool := db.Pool(t)
	holdRow(t, rowLocker(t, pool), invoice)
	watcher := connectAs(t, db.Role(t, "watcher"))
	if s := take(t, watcher); len(inRows(s)) != 0 || !strings.Contains(s.RowLocksMissing, "GRANT SELECT ON pglock.row_locks") {
		t.Errorf("without grants: %+v, %q", inRows(s), s.RowLocksMissing)
	} else if h := ofNoKeys(s); !strings.HasSuffix(h, " for an advisory lock; locks in rows could not be read. No advisory locks held.") {
		t.Errorf("without grants the headline is %q", h)
	}
	execute(t, pool, migrations.WatcherGrants(watcher.Config().User))
	s := take(t, watcher)
	if len(inRows(s)) != 1 || s.RowLocksMissing != "" {
		t.Fatalf("with them: %+v, %q", inRows(s), s.RowLocksMissing)
	}
	if h := ofNoKeys(s); !strings.HasSuffix(h, ". No locks held.") {
		t.Errorf("with them the headline is %q", h)
	}
	if h := inRows(s)[0].Holders[0]; h.Lease.Host != "" || h.Lease.PID != 0 || strings.Join(h.Hidden, " ") != "client" || h.User == "" {
		t.Errorf("the holder is %+v", h)
	}
}

// ofNoKeys returns the headline of no lock at all, to which the locks of other tests on the server add nothing.
func ofNoKeys(s *monitor.Snapshot) string {
	return s.ActionOf(func(*monitor.Lock) bool { return false }, nil).String()
}

// A role that takes locks makes as many rows as it likes, with texts as long as it likes. Who waits is shown all the same.
func TestManyLocksInRowsAreBounded(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool := db.Pool(t)
	execute(t, pool, `SELECT pglock.lease_open(gen_random_uuid(), 60000, repeat('x', 1000000), repeat('y', 1000000), 1)`,
		`INSERT INTO pglock.leases (space, number, holder, generation, since)
			SELECT 1, n, h.id, n, '2000-01-01' FROM generate_series(1, 3000) AS n, pglock.holders AS h`)
	holdRow(t, rowLocker(t, pool), invoice)
	waitRow(t, rowLocker(t, pool), invoice)
	s := takeWaiting(t, pool, invoice, 1)
	if len(inRows(s)) != 1000 || len(rowLockOf(s, invoice).Holders) != 1 || s.RowLocksMissing != "" ||
		s.IdleRowsMissing != "2001 of 3001 holders of locks in rows are left out: nothing waits for them" {
		t.Errorf("%d locks are shown, of invoice:42 %+v: %s; %s", len(inRows(s)), rowLockOf(s, invoice), s.RowLocksMissing, s.IdleRowsMissing)
	}
	for _, lock := range inRows(s) {
		if h := lock.Holders[0]; len(h.Application) > 64 || len(h.Lease.Host) > 255 {
			t.Fatalf("%d and %d bytes", len(h.Application), len(h.Lease.Host))
		}
	}
	execute(t, pool, `UPDATE pglock.leases SET since = '-infinity' WHERE number = 1`) // fails as it would if it took too long
	if s = take(t, pool); s.RowLocksMissing != "" || s.IdleRowsMissing == "" || len(inRows(s)) != 1 ||
		s.ActionOf(inRow, nil).Whom[0].ID() != rowLockOf(s, invoice).Holders[0].ID() {
		t.Errorf("without the holders: %+v, %q, %q, %v", inRows(s), s.RowLocksMissing, s.IdleRowsMissing, s.ActionOf(inRow, nil))
	}
}

// The rows of one process, or of one role, hide no others, however many and old they are.
func TestRowsOfOneRoleHideNoOthers(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]string{"one process": "1", "many": "3000"} {
		db := testenv.Installed(t)
		pool := db.Pool(t)
		execute(t, pool, `INSERT INTO pglock.holders (id, expires, role, application, host, pid, since)
				SELECT gen_random_uuid(), '9999-01-01', 'tenant', 'x', 'h', n, '2000-01-01'::timestamptz + n * interval '1 s'
				FROM generate_series(1, `+processes+`) AS n`,
			`INSERT INTO pglock.lease_shares (space, number, generation, holder, attempt, since)
				SELECT 1, n, n, h.id, 1, '2000-01-01' FROM generate_series(1, 30000) AS n JOIN pglock.holders AS h ON h.pid = 1 + n % `+processes,
			`INSERT INTO pglock.lease_waiters (space, number, arrival, holder, attempt, shared, since)
				SELECT 1, 7, n, h.id, 1, false, '2000-01-01' FROM generate_series(1, 20000) AS n JOIN pglock.holders AS h ON h.pid = 1 + n % `+processes)
		holdRow(t, rowLocker(t, pool), invoice)
		waitRow(t, rowLocker(t, pool), invoice)
		s := takeWaiting(t, pool, invoice, 1)
		if lock := rowLockOf(s, invoice); len(lock.Holders) != 1 || len(lock.Waiters) != 1 || len(lock.Waiters[0].BlockedBy) != 1 || s.RowLocksMissing == "" {
			t.Errorf("%s: %+v; %s", name, lock, s.RowLocksMissing)
		}
	}
}

// All locks of a process that is asked for are there, however many others there are.
func TestAllLocksOfAProcessThatIsAskedForAreRead(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	pool := db.Pool(t)
	execute(t, pool, `SELECT pglock.lease_open(gen_random_uuid(), 60000, name, 'host', 1) FROM unnest(ARRAY['one', 'other']) AS name`,
		`INSERT INTO pglock.leases (space, number, holder, generation, since)
			SELECT 1, n, h.id, n, '2000-01-01' FROM generate_series(1, 3000) AS n, pglock.holders AS h
			WHERE (h.application = 'one') = (n > 1500)`)
	holder := value(t, pool, "SELECT DISTINCT holder FROM pglock.row_locks WHERE application = 'one'")
	s, err := monitor.Take(t.Context(), pool, monitor.WithSession(monitor.SessionID{Holder: holder}))
	must.Succeed(t, err)
	target, err := s.Target(monitor.SessionID{Holder: holder})
	must.Succeed(t, err)
	if len(target.Holds) != 1500 || target.Ref != holder {
		t.Errorf("%d locks of %q: %s", len(target.Holds), target.Ref, s.RowLocksMissing)
	}
}

// A process that ended without a word leaves rows behind. When its lease is over it neither waits nor blocks.
// Not in parallel: the headline is about all waits of the server.
func TestAProcessWhoseLeaseIsOverIsNotWaitedForAndDoesNotWait(t *testing.T) {
	db := testenv.Installed(t)
	pool := db.Pool(t)
	execute(t, pool, `SELECT pglock.lease_open(gen_random_uuid(), 60000, name, 'host', 1) FROM unnest(ARRAY['dead', 'live', 'other']) AS name`,
		`INSERT INTO pglock.leases (space, number, holder, generation, since)
			SELECT 1, CASE application WHEN 'dead' THEN 42 ELSE 43 END, id, 1, now() FROM pglock.holders WHERE application <> 'live'`,
		`INSERT INTO pglock.lease_waiters (space, number, holder, shared, arrival, attempt, since)
			SELECT 1, n, id, false, 2, 1, now() - interval '1 minute' FROM pglock.holders, generate_series(42, 44) AS n
			WHERE application = CASE n WHEN 42 THEN 'live' ELSE 'dead' END`)
	if h := take(t, pool).Action(); h.Waiting != 2 || h.Frees != 0 || h.AtMost != 2 || h.Held != 2 || h.Whom[0].Application != "other" {
		t.Fatalf("while all live: %+v", h)
	}
	execute(t, pool, `UPDATE pglock.holders SET expires = now() - interval '1 second' WHERE application = 'dead'`)
	s := take(t, pool)
	if len(inRows(s)) != 2 || len(inRows(s)[0].Holders) != 1 || len(inRows(s)[0].Waiters) != 1 || len(inRows(s)[0].Waiters[0].BlockedBy) != 0 ||
		len(inRows(s)[1].Holders) != 1 || len(inRows(s)[1].Waiters) != 0 {
		t.Errorf("%+v", inRows(s))
	}
	if h := s.Action(); len(h.Whom) > 0 || h.Waiting != 1 || h.Held != 1 {
		t.Errorf("%+v", h)
	}
}
