package pglock_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

type contextKey struct{}

func lockInMemory(t *testing.T, opts ...pglock.LockOption) *pglock.Lock {
	t.Helper()
	l, err := locktest.NewMemory()
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	lock, err := l.Lock(t.Context(), pglock.NewKey("k"), opts...)
	must.Succeed(t, err)
	return lock
}

// Every context of a lock, and every one derived from it, has its parent's values and ends with the lock.
func TestContextsEndWithTheLock(t *testing.T) {
	lock := lockInMemory(t)
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, parent := range []context.Context{
		context.Background(), context.TODO(), parent,
		context.WithValue(context.Background(), contextKey{}, "v"), context.WithValue(parent, contextKey{}, "v"),
	} {
		work := lock.Context(parent)
		derived, cancel := context.WithTimeout(work, time.Hour)
		defer cancel()
		if work.Value(contextKey{}) != parent.Value(contextKey{}) || work.Err() != nil || derived.Err() != nil {
			t.Errorf("%v: %v, %v, %v", parent, work.Value(contextKey{}), work.Err(), derived.Err())
		}
		defer func() {
			<-derived.Done()
			if !errors.Is(context.Cause(work), pglock.ErrUnlocked) || !errors.Is(context.Cause(derived), pglock.ErrUnlocked) {
				t.Errorf("%v: ended with %v and %v", parent, context.Cause(work), context.Cause(derived))
			}
			if late := lock.Context(parent); late.Err() == nil || !errors.Is(context.Cause(late), pglock.ErrUnlocked) {
				t.Errorf("%v: a context of a lock that has ended: %v", parent, context.Cause(late))
			}
		}()
	}
	mustUnlock(t, lock)
}

// A deadline that a parent has is one of the contexts, so they end with its error, and so do waits under them.
func TestContextsEndAsTheirParents(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Succeed(t, err)
	held, other := pglock.NewKey("held"), pglock.NewKey("other")
	lock, holder := mustLock(t, l, held), mustLock(t, l, other)
	parent, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	work := lock.Context(parent)
	derived, cancel := context.WithCancel(work)
	defer cancel()
	_, err = l.Lock(derived, other)
	wait, waited := errors.AsType[*pglock.WaitError](err)
	if !waited || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || len(wait.Holders) != 1 {
		t.Errorf("a wait under a deadline: %v", err)
	}
	for _, ctx := range []context.Context{work, derived, lock.Context(parent)} {
		select {
		case <-ctx.Done():
		default:
			t.Error("a context lasts longer than its parent")
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v, %v", ctx.Err(), context.Cause(ctx))
		}
	}
	mustUnlock(t, lock)
	mustUnlock(t, holder)
	closeWithinAMinute(t, l)
}

// A lock that is held for weeks does not keep the contexts that were asked for meanwhile.
func TestContextsWithoutReferencesAreCollected(t *testing.T) {
	lock := lockInMemory(t)
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	const some = 10_000
	size := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := size()
	for range some {
		lock.Context(context.Background())
		lock.Context(context.WithValue(context.Background(), contextKey{}, "v"))
		ended, cancel := context.WithCancel(parent)
		lock.Context(ended)
		cancel()
	}
	// If they were kept they would take about 200 bytes each. Ended ones are forgotten on separate goroutines.
	testenv.WaitUntil(t, "the contexts take no memory", func() bool { return size() <= before+1<<20 })
	mustUnlock(t, lock)
}

func TestContextTheLongestDurationIsForEver(t *testing.T) {
	lock := lockInMemory(t, pglock.MaxHold(math.MaxInt64))
	if err := lock.Err(); err != nil {
		t.Error(err)
	}
	if err := lock.Extend(math.MaxInt64); err != nil || lock.Err() != nil {
		t.Errorf("%v; %v", err, lock.Err())
	}
	mustUnlock(t, lock)
}
