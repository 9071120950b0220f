package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// someSessions is how many sessions a Locker with default options may open under load: two mux sessions, sixteen wait
// sessions, and a few for other statements and in reserve.
const someSessions = 24

// Many waits fail at the same moment, and each asks for the holder.
func TestSessionsWaitsThatEndTogetherOpenFewSessions(t *testing.T) {
	db := testenv.Database(t)
	l, opened := openCounted(t, db)
	holder := db.Connect(t)
	keys := faultKeys(300)
	plainLock(t, holder, keys...)
	deadline, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var waiting sync.WaitGroup
	var named atomic.Int32
	for _, key := range keys {
		waiting.Go(func() {
			_, err := l.Lock(deadline, key)
			wait := (*pglock.WaitError)(nil)
			if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait that was too long: %v", err)
				return
			}
			for _, h := range wait.Holders {
				if h.PID != int32(holder.PgConn().PID()) {
					t.Errorf("the holder is %+v, want process %d", h, holder.PgConn().PID())
				}
				named.Add(1)
			}
		})
	}
	waiting.Wait()
	if n := opened.Load(); n > someSessions {
		t.Errorf("%d sessions were opened for %d waits", n, len(keys))
	}
	testenv.WaitUntil(t, "an error names the holder", func() bool { // on a busy machine the answer may come too late
		_, err := l.Lock(t.Context(), keys[0], pglock.MaxWait(50*time.Millisecond))
		wait := (*pglock.WaitError)(nil)
		return named.Load() > 0 || errors.As(err, &wait) && len(wait.Holders) > 0
	})
	plainUnlock(t, holder, keys...)
	wantQuiet(t, db, l)
}

// Readers of one key and readers of several share what the server has granted, in whatever order they lock and unlock. A key of
// many holders counts once; two more are held while a LockAll asks beside them.
func TestSessionsReadersOfOneAndOfSeveralKeysKeepWhatTheyHave(t *testing.T) {
	db := testenv.Database(t)
	l, _ := openCounted(t, db, pglock.WithHandoffLimit(0, 0), pglock.WithMaxHeld(4))
	writer, _ := openCounted(t, db)
	a, b := pglock.NewKey("a"), pglock.NewKey("b")
	one := func() *pglock.Lock { return mustLock(t, l, a, pglock.Shared()) }
	both := func() *pglock.Lock {
		lock, err := l.LockAll(minuteContext(t), []pglock.Key{a, b}, pglock.Shared())
		must.Succeed(t, err)
		return lock
	}
	for _, acquire := range [][]func() *pglock.Lock{{one, both}, {both, one}, {both, both}, {one, one, both}, {both, one, both}} {
		for range 6 { // they are released in random order
			var locks []*pglock.Lock
			for _, f := range acquire {
				locks = append(locks, f())
			}
			rand.Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
			for i, lock := range locks {
				for _, left := range locks[i:] {
					wantKeptFrom(t, writer, left)
				}
				mustUnlock(t, lock)
			}
			wantWorking(t, []pglock.Key{a, b}, writer)
		}
	}
}

// wantKeptFrom checks that a writer is refused every key of the lock.
func wantKeptFrom(t *testing.T, writer *pglock.Locker, held *pglock.Lock) {
	t.Helper()
	for _, key := range held.Keys() {
		if lock, err := writer.TryLock(minuteContext(t), key); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("a writer got %s, which a reader holds (%v): %v", key, held.Err(), err)
			if err == nil {
				mustUnlock(t, lock)
			}
		}
	}
}
