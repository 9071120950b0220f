package pglock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A process in which 64 goroutines compete for a key hands it off among them only as often as the limit allows. Then a
// waiting process gets the lock.
func TestLongFaultsAHotProcessLetsAnotherOneHaveItsTurn(t *testing.T) {
	const few, usual = 16, 1000
	fewHandoffs := pglock.WithHandoffLimit(few, time.Hour)
	t.Run("writing", func(t *testing.T) { shareHotKey(t, few, false, fewHandoffs) })
	t.Run("reading", func(t *testing.T) { shareHotKey(t, few, true, fewHandoffs) })
	t.Run("writing, by default", func(t *testing.T) { shareHotKey(t, usual, false) })
	t.Run("reading, by default", func(t *testing.T) { shareHotKey(t, usual, true) })
}

// shareHotKey counts the locks of the hot process that were granted while the other process waited in the server's
// queue. The first of them may have been granted just before the wait began, and so may readers that share it.
func shareHotKey(t *testing.T, handoffs int, shared bool, opts ...pglock.Option) {
	db := testenv.Database(t)
	watch := db.Pool(t)
	hot, _ := openCounted(t, db, opts...)
	other := openLocker(t, db, pglock.WithApplicationName("the other one"))
	key := pglock.NewKey("hot")
	const workers = 64
	limit, how := handoffs+1, []pglock.LockOption(nil)
	if shared {
		limit, how = 2*handoffs+workers, []pglock.LockOption{pglock.Shared()}
	}
	check := newExclusionCheck(noticeBefore)
	var past atomic.Int64
	stop := keepBusy(t, workers, []*pglock.Locker{hot}, func(ctx context.Context, l *pglock.Locker) {
		lock, err := l.Lock(ctx, key, how...)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		h := check.enter(t, lock, shared)
		var waiting bool
		err = watch.QueryRow(ctx, `select exists (select from pg_locks as l join pg_stat_activity as a using (pid)
			where l.locktype = 'advisory' and not l.granted and a.application_name like 'the other one (%')`).Scan(&waiting)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if waiting {
			past.Add(1)
		}
		check.unlock(t, h)
	})
	for range testenv.Trials(t, 10) {
		enough := check.count() + 100
		testenv.WaitUntil(t, "the hot process is running", func() bool { return check.count() >= enough })
		past.Store(0)
		lock := mustLock(t, other, key)
		h := check.enter(t, lock, false)
		if n := past.Load(); n > int64(limit) {
			t.Errorf("%d locks were granted to the hot process past another one that waited, want %d at most", n, limit)
		}
		check.unlock(t, h)
	}
	stop()
	wantQuiet(t, db, hot, other)
}
