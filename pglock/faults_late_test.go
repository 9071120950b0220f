package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// When Lock returns an error, the caller holds nothing. A request that arrives after the error, because the network kept
// it back, may be granted, and then the server frees the lock within a lease, even if it hears nothing of the client.
func TestFaultsARequestThatArrivesAfterItsErrorIsFreedWithinALease(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	link, config := newProxy(t, db)
	l, err := pglock.NewWithConfig(config, pglock.WithLease(2*time.Second), pglock.WithApplicationName(silentApplication))
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	must.Succeed(t, l.Ping(minuteContext(t)))
	link.Cut(true, false)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	key := pglock.NewKey("k")
	lock, err := l.Lock(ctx, key)
	if lock != nil || !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("Lock of a server that hears nothing: %v, %v", lock, err)
	}
	if locks := db.AdvisoryLocks(t); len(locks) != 0 {
		t.Errorf("before the request has arrived: %v", locks)
	}
	link.Cut(true, true) // the client does not learn of the grant
	link.Cut(false, true)
	watcher := db.Connect(t)
	// On a busy machine the server may have ended the session before.
	testenv.WaitUntil(t, "the request is granted, or its session has ended", func() bool {
		return len(db.AdvisoryLocks(t)) == 1 || must.One[int64](t, watcher, sessionsLike, silentApplication+" (pglock %") == 0
	})
	t.Logf("after the request has arrived: %v", db.AdvisoryLocks(t))
	mustUnlock(t, mustLock(t, openLocker(t, db), key))
	if stats := l.Stats(); stats.Held != 0 || stats.Acquired != 0 {
		t.Errorf("the caller has got a lock: %+v", stats)
	}
	link.Cut(false, false)
}

const sessionsLike = `select count(*) from pg_stat_activity where datname = current_database() and application_name like $1`
