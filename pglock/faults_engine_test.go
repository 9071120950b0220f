package pglock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// An event trigger that refuses a waiter's temporary objects costs it its place in the queue now and then, but not the
// lock.
func TestFaultsWaitersGoOnWhereTemporaryObjectsAreRefused(t *testing.T) {
	db := testenv.Database(t)
	admin := db.Connect(t)
	if _, err := admin.Exec(t.Context(), `create function refuse() returns event_trigger language plpgsql
		as $$ begin raise exception 'no DDL on Sundays'; end $$;
		create event trigger refuse on ddl_command_start execute function refuse()`); err != nil {
		t.Fatal(err)
	}
	l, _ := openCounted(t, db)
	key := pglock.NewKey("k")
	plainLock(t, admin, key)
	granted := lockLater(t, l, key)
	db.WaitForWaiters(t, 1)
	plainUnlock(t, admin, key)
	for lock := range granted {
		mustUnlock(t, lock)
	}
	if _, err := admin.Exec(t.Context(), "drop event trigger refuse"); err != nil {
		t.Fatal(err)
	}
	wantQuiet(t, db, l)
}

// terminateAll ends all sessions of Lockers under test.
func terminateAll(t *testing.T, db *testenv.DB) {
	t.Helper()
	if _, err := db.Connect(t).Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and application_name like $1`, faultsApplications); err != nil {
		t.Fatal(err)
	}
}

// Verify and similar calls return when their contexts end, even behind a statement that gets no answer.
func TestFaultsQuestionsFollowTheirContexts(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	link, config := newProxy(t, db)
	l, _ := openConfig(t, config, pglock.WithLease(30*time.Second))
	lock := mustLock(t, l, pglock.NewKey("k"))
	link.Cut(true, true)
	var asked sync.WaitGroup
	var late atomic.Int32
	for range 5 {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := lock.Fence(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Fence: %v", err)
			}
			if err := lock.Verify(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Verify: %v", err)
			}
			if lock.Err() != nil {
				late.Add(1)
			}
		})
	}
	asked.Wait()
	if late.Load() > 0 {
		t.Error("the calls returned only when the lease was over")
	}
	link.Cut(false, false)
	terminateAll(t, db)
	awaitDone(t, lock.Done(), "the end of the session")
}
