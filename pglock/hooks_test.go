package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func memoryLocker(t *testing.T, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := locktest.NewServer().Locker(opts...)
	txCheck(t, err)
	t.Cleanup(func() { txCheck(t, l.Close(context.Background())) })
	return l
}

func TestHooksHandOffGivesTheLockToTheNextWithoutAskingTheServer(t *testing.T) {
	var uses []string
	l := memoryLocker(t, pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		uses = append(uses, string(e.Type)+" "+string(e.Use.Kind))
	}))
	key := pglock.NewKey("k")
	use := hooks.WithUse(pglock.Use{Kind: "turn", Key: key}).(pglock.LockOption)
	first := mustLock(t, l, key)
	handed, say, err := hooks.HandOff(first, t.Context(), []pglock.LockOption{use})
	txCheck(t, err)
	next := handed.(*pglock.Lock)
	if err := first.Err(); !errors.Is(err, pglock.ErrUnlocked) || next.Err() != nil || next.Token() == first.Token() {
		t.Errorf("the first is %v, the next %v with token %s", err, next.Err(), next.Token())
	}
	if len(uses) != 1 {
		t.Errorf("before report was called the Observer learned of %q", uses)
	}
	say()
	mustUnlock(t, next)
	want := []string{"acquired ", "released ", "acquired turn", "released turn"}
	if len(uses) != len(want) || uses[2] != want[2] || uses[3] != want[3] {
		t.Errorf("the Observer learned of %q, want %q", uses, want)
	}
	if s := l.Stats(); s.HandedOff != 1 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

func TestHooksHandOffLeavesALockThatItCannotHandOff(t *testing.T) {
	l := memoryLocker(t)
	key := pglock.NewKey("k")
	refused := func(lock *pglock.Lock, opts ...pglock.LockOption) {
		t.Helper()
		before := lock.Err()
		if _, _, err := hooks.HandOff(lock, t.Context(), opts); err == nil || errors.Is(err, pglock.ErrNotAcquired) == (len(opts) > 0) {
			t.Errorf("the error is %v", err)
		}
		if after := lock.Err(); !errors.Is(after, before) {
			t.Errorf("it was %v, and is %v", before, after)
		}
	}
	shared := mustLock(t, l, key, pglock.Shared())
	refused(shared)
	mustUnlock(t, shared)
	refused(shared)

	lock := mustLock(t, l, key)
	refused(lock, nil)
	refused(lock, pglock.MaxHold(-time.Second))
	waited := make(chan error, 1)
	go func() {
		next, err := l.Lock(t.Context(), key)
		waited <- errors.Join(err, next.Unlock(t.Context()))
	}()
	testenv.WaitUntil(t, "it waits", func() bool { return l.Stats().Waiting > 0 })
	refused(lock) // a call of this process comes first
	mustUnlock(t, lock)
	txCheck(t, <-waited)
}
