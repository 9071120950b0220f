package pglock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// manyWaiters starts n waiters for each of the keys in each of the Lockers; some wait in the server's queue, and the
// others poll. served returns when all of them have been granted the lock.
func manyWaiters(t *testing.T, n int, keys []pglock.Key, lockers ...*pglock.Locker) (served func()) {
	t.Helper()
	var waiting sync.WaitGroup
	for _, l := range lockers {
		for i := range n * len(keys) {
			waiting.Go(func() {
				lock, err := l.Lock(minuteContext(t), keys[i%len(keys)])
				if err != nil {
					t.Error(err)
					return
				}
				mustUnlock(t, lock)
			})
		}
		testenv.WaitUntil(t, "all wait", func() bool { return l.Stats().Waiting == n*len(keys) })
	}
	return waiting.Wait
}

// createIndex builds an index concurrently, which waits for the end of every transaction that has an older snapshot
// (https://www.postgresql.org/docs/current/sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY).
func createIndex(t *testing.T, db *testenv.DB, name string) (conn *pgx.Conn, done <-chan error) {
	t.Helper()
	conn = db.Connect(t)
	if _, err := conn.Exec(t.Context(), "create table if not exists indexed (n int)"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "create index concurrently "+name+" on indexed (n)")
		result <- err
	}()
	return conn, result
}

// Waiters have no snapshot, so they hold back neither vacuum nor CREATE INDEX CONCURRENTLY, however many there are. A
// plain waiter, the control, does.
func TestWaitersDoNotBlockOthers(t *testing.T) {
	db := testenv.Database(t)
	holder, conn := db.Connect(t), db.Connect(t)
	first, _ := openCounted(t, db)
	second, _ := openCounted(t, db)
	keys := faultKeys(4)
	plainLock(t, holder, keys...)
	served := manyWaiters(t, 3, keys, first, second)
	db.WaitForWaiters(t, 8)

	_, indexed := createIndex(t, db, "beside_waiters")
	wantNoError(t, indexed, "CREATE INDEX CONCURRENTLY beside waiters of this library")
	db.WaitForWaiters(t, 8)
	if n := must.One[int64](t, conn, waitersWithSnapshot); n != 0 {
		t.Errorf("%d waiters hold back the vacuum horizon", n)
	}

	control := db.Connect(t)
	waited := make(chan error, 1)
	go func() {
		_, err := control.Exec(context.Background(), "select pg_advisory_lock($1)", keys[0].Int64())
		waited <- err
	}()
	db.WaitForWaiters(t, 9)
	if n := must.One[int64](t, conn, waitersWithSnapshot); n != 1 {
		t.Errorf("the control has %d snapshots, so this test shows nothing", n)
	}
	builder, indexed := createIndex(t, db, "beside_a_plain_waiter")
	testenv.WaitUntil(t, "the control blocks CREATE INDEX CONCURRENTLY", func() bool {
		return must.One[int64](t, conn, "select count(*) from unnest(pg_blocking_pids($1)) as pid where pid = $2",
			builder.PgConn().PID(), control.PgConn().PID()) == 1
	})
	plainUnlock(t, holder, keys...)
	wantNoError(t, waited, "the control's wait")
	wantNoError(t, indexed, "CREATE INDEX CONCURRENTLY beside a plain waiter that has ended")
	plainUnlock(t, control, keys[0])
	served()
	wantQuiet(t, db, first, second)
}

func wantNoError(t *testing.T, result <-chan error, what string) {
	t.Helper()
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// A waiter has a place in the server's own queue, in the order of arrival.
func TestWaitersKeepTheirPlaceAmongPlainWaiters(t *testing.T) {
	db := testenv.Database(t)
	holder, before, after := db.Connect(t), db.Connect(t), db.Connect(t)
	l, _ := openCounted(t, db)
	key := pglock.NewKey("k")
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		plainLock(t, holder, key)
		queue := make(chan string, 3)
		var waiters sync.WaitGroup
		plain := func(conn *pgx.Conn, name string) func() {
			return func() {
				_, err := conn.Exec(context.Background(), "select pg_advisory_lock($1)", key.Int64())
				if err != nil {
					t.Error(err)
				}
				queue <- name
				if _, err := conn.Exec(context.Background(), "select pg_advisory_unlock($1)", key.Int64()); err != nil {
					t.Error(err)
				}
			}
		}
		ours := func() {
			lock, err := l.Lock(minuteContext(t), key, opts...)
			queue <- "ours"
			if err != nil {
				t.Error(err)
				return
			}
			mustUnlock(t, lock)
		}
		for i, wait := range []func(){plain(before, "before"), ours, plain(after, "after")} {
			waiters.Go(wait)
			db.WaitForWaiters(t, i+1)
		}
		plainUnlock(t, holder, key)
		for _, want := range []string{"before", "ours", "after"} {
			if got := <-queue; got != want {
				t.Errorf("%q got the lock when %q should have", got, want)
			}
		}
		waiters.Wait()
		wantQuiet(t, db, l)
	}
}
