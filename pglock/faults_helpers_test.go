package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// faultsApplication names the sessions of Lockers under test, and no others. Their names match faultsApplications.
const (
	faultsApplication  = "pglock under test"
	faultsApplications = faultsApplication + " (pglock ________)"
)

// openCounted is openLocker, and counts the sessions that the Locker opens.
func openCounted(t testing.TB, db *testenv.DB, opts ...pglock.Option) (*pglock.Locker, *atomic.Int32) {
	t.Helper()
	return openConfig(t, db.Config(t), opts...)
}

// openFar is openCounted for a distant server, where statements overlap.
func openFar(t testing.TB, db *testenv.DB, opts ...pglock.Option) (*pglock.Locker, *atomic.Int32) {
	t.Helper()
	config := db.Config(t)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return farConn{conn}, err
	}
	return openConfig(t, config, opts...)
}

// farConn reads everything a millisecond late.
type farConn struct{ net.Conn }

func (c farConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Millisecond)
	return n, err
}

func openConfig(t testing.TB, config *pgxpool.Config, opts ...pglock.Option) (*pglock.Locker, *atomic.Int32) {
	t.Helper()
	opened := new(atomic.Int32)
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		opened.Add(1)
		return nil
	}
	l, err := pglock.NewWithConfig(config, append(opts, pglock.WithApplicationName(faultsApplication))...)
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	return l, opened
}

// distances are the ways to open a Locker that affect how it uses its sessions.
var distances = map[string]func(testing.TB, *testenv.DB, ...pglock.Option) (*pglock.Locker, *atomic.Int32){
	"near": openCounted, "far": openFar,
}

// closeWithinAMinute closes the Locker of a test that may have failed with locks held.
func closeWithinAMinute(t testing.TB, l *pglock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

// minuteContext returns a context for calls that must end long before it does. A test in which it ends has failed.
func minuteContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// lockLater waits for the lock in the background, and sends it when it is granted.
func lockLater(t testing.TB, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) <-chan *pglock.Lock {
	granted := make(chan *pglock.Lock, 1)
	go func() {
		defer close(granted)
		lock, err := l.Lock(minuteContext(t), key, opts...)
		if err != nil {
			t.Error(err)
			return
		}
		granted <- lock
	}()
	return granted
}

// lockWhenAvailable is lockLater on a machine so busy that a connection may not come about in its second.
func lockWhenAvailable(t *testing.T, l *pglock.Locker, key pglock.Key) <-chan *pglock.Lock {
	granted := make(chan *pglock.Lock, 1)
	go func() {
		defer close(granted)
		untilAvailable(t, "a lock", func() error {
			lock, err := l.Lock(minuteContext(t), key)
			if err == nil {
				granted <- lock
			}
			return err
		})
	}()
	return granted
}

// numbers returns the result of a query for one column of integers.
func numbers(t testing.TB, conn *pgx.Conn, query string, args ...any) []int64 {
	t.Helper()
	rows, err := conn.Query(context.Background(), query, args...)
	must.Succeed(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	must.Succeed(t, err)
	return found
}

// sessionsNow counts the lock sessions of the Lockers under test that have been opened, so that they have an identity.
func sessionsNow(t testing.TB, conn *pgx.Conn) int64 {
	t.Helper()
	return must.One[int64](t, conn, `select count(*) from pg_stat_activity as a join pg_locks as l using (pid)
		where a.datname = current_database() and a.application_name like $1 and l.classid = $2::int8::oid and l.objsubid = 2`,
		faultsApplications, int64(lockkeys.IdentityClass))
}

// plainLock takes keys with PostgreSQL's own functions.
func plainLock(t testing.TB, conn *pgx.Conn, keys ...pglock.Key) {
	t.Helper()
	for _, key := range keys {
		if _, err := conn.Exec(t.Context(), "select pg_advisory_lock($1)", key.Int64()); err != nil {
			t.Fatal(err)
		}
	}
}

func plainUnlock(t testing.TB, conn *pgx.Conn, keys ...pglock.Key) {
	t.Helper()
	for _, key := range keys {
		var held bool
		err := conn.QueryRow(t.Context(), "select pg_advisory_unlock($1)", key.Int64()).Scan(&held)
		if err != nil || !held {
			t.Fatalf("unlock %s: %v, %v", key, held, err)
		}
	}
}

// faultKeys returns n keys.
func faultKeys(n int) []pglock.Key {
	keys := make([]pglock.Key, n)
	for i := range keys {
		keys[i] = pglock.NewKey("fault:" + strconv.Itoa(i))
	}
	return keys
}

// some returns n of keys, in random order.
func some(keys []pglock.Key, n int) []pglock.Key {
	chosen := make([]pglock.Key, n)
	for i, j := range rand.Perm(len(keys))[:n] {
		chosen[i] = keys[j]
	}
	return chosen
}

// keepBusy runs work repeatedly in n goroutines for each Locker. stop, which may be called more than once, waits for
// them.
func keepBusy(t testing.TB, n int, lockers []*pglock.Locker, work func(context.Context, *pglock.Locker)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, l := range lockers {
		for range n {
			workers.Go(func() {
				for ctx.Err() == nil {
					work(ctx, l)
				}
			})
		}
	}
	stop = func() {
		cancel()
		workers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// acquireAnyWay takes a lock by a method chosen at random, and waits only briefly. LockAll may hold some of its keys
// while it waits, but always in one order, and a worker that holds a Lock asks for no other. So any deadlock is the
// library's fault.
func acquireAnyWay(ctx context.Context, l *pglock.Locker, keys []pglock.Key) (lock *pglock.Lock, shared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(100*time.Millisecond))
	defer cancel()
	key := keys[rand.IntN(len(keys))]
	switch rand.IntN(9) {
	case 0:
		lock, err = l.TryLock(ctx, key)
	case 1:
		lock, err = l.TryLock(ctx, key, pglock.Shared())
		shared = true
	case 2, 3:
		lock, err = l.Lock(ctx, key, pglock.Shared())
		shared = true
	case 4:
		lock, err = l.LockAll(ctx, some(keys, 3))
	case 5:
		lock, err = l.TryLockAll(ctx, some(keys, 3))
	case 6:
		lock, err = l.LockAll(ctx, some(keys, 2), pglock.Shared())
		shared = true
	default:
		lock, err = l.Lock(ctx, key)
	}
	return lock, shared, err
}

// exclusionCheck records who holds which lock, and fails the test if locks do not exclude each other.
type exclusionCheck struct {
	notice lossNotice

	mu      sync.Mutex
	holders map[pglock.KeyID][]*holding
	granted int
	lost    int
}

type holding struct {
	lock     *pglock.Lock
	shared   bool
	overlaps []*holding // which had the lock at the same time
	unlocked bool       // its Unlock returned nil
}

// lossNotice says by when a holder that loses the lock must learn of it.
type lossNotice int

const (
	noticeBefore   lossNotice = iota // before the next holder gets the lock
	noticeByUnlock                   // a moment late, since the server ended the session; but Unlock asks the server, and reports it
	noticeLate                       // a moment late, and Unlock hands the lock off without asking
)

func newExclusionCheck(notice lossNotice) *exclusionCheck {
	return &exclusionCheck{notice: notice, holders: map[pglock.KeyID][]*holding{}}
}

// count returns how many locks have been granted.
func (c *exclusionCheck) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// enter must be called right after an acquisition. Two successive holders may call it in either order.
func (c *exclusionCheck) enter(t testing.TB, lock *pglock.Lock, shared bool) *holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &holding{lock: lock, shared: shared}
	c.granted++
	for _, key := range lock.Keys() {
		for _, other := range c.holders[key.ID()] {
			if shared && other.shared {
				continue
			}
			if c.notice == noticeBefore && other.lock.Err() == nil && lock.Err() == nil {
				t.Errorf("%s has two holders, and the first one does not know", key)
			}
			other.overlaps, h.overlaps = append(other.overlaps, h), append(h.overlaps, other)
		}
		c.holders[key.ID()] = append(c.holders[key.ID()], h)
	}
	return h
}

// leave must be called right before a release.
func (c *exclusionCheck) leave(h *holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range h.lock.Keys() {
		others := c.holders[key.ID()][:0]
		for _, other := range c.holders[key.ID()] {
			if other != h {
				others = append(others, other)
			}
		}
		c.holders[key.ID()] = others
	}
}

// unlock releases the lock. A loss that Unlock reports is no failure; one that it does not report is.
func (c *exclusionCheck) unlock(t testing.TB, h *holding) {
	c.leave(h)
	err := h.lock.Unlock(context.Background())
	if !plausible(err, pglock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost++
		return
	}
	h.unlocked = true
	for _, other := range h.overlaps {
		if other.unlocked && c.notice != noticeLate {
			t.Errorf("%v had two holders at the same time, and both Unlocks returned nil", h.lock.Keys())
		}
	}
}

// plausible reports whether err is nil, matches expected, or says that there was no answer: the server could not be
// reached, the caller's context has ended, or the statement was cancelled. Held, lost and contended locks must not be
// confused.
func plausible(err, expected error) bool {
	if err == nil {
		return true
	}
	for _, other := range []error{pglock.ErrNotAcquired, pglock.ErrLost, pglock.ErrUnlocked, pglock.ErrTooManyLocks} {
		if errors.Is(err, other) {
			return other == expected
		}
	}
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) && server.Code == "57014" {
		return true
	}
	return errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// wantQuiet waits until the Lockers, which are still open, hold nothing and the server says the same.
func wantQuiet(t testing.TB, db *testenv.DB, lockers ...*pglock.Locker) {
	t.Helper()
	for _, l := range lockers {
		testenv.WaitUntil(t, "the Locker says that it holds nothing", func() bool {
			stats := l.Stats()
			return stats.Held == 0 && stats.Waiting == 0
		})
	}
	var left []testenv.Lock
	defer func() {
		if t.Failed() {
			t.Logf("last seen in pg_locks: %v", left)
		}
	}()
	testenv.WaitUntil(t, "pg_locks is empty", func() bool {
		left = db.AdvisoryLocks(t)
		return len(left) == 0
	})
}

// wantWorking takes every lock once with every Locker, without waiting.
func wantWorking(t testing.TB, keys []pglock.Key, lockers ...*pglock.Locker) {
	t.Helper()
	for _, l := range lockers {
		for _, key := range keys {
			lock, err := l.TryLock(context.Background(), key)
			if err != nil {
				t.Errorf("the Locker does not work any more: %v", err)
				continue
			}
			if err := lock.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}
