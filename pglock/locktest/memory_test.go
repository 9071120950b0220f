package locktest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	server := locktest.NewServer()
	locktest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return openMemory(t, server, opts...)
	})
}

func openMemory(t testing.TB, server *locktest.Server, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := server.Locker(opts...)
	return must.Closing(t, l, err)
}

func TestLoseEndsTheLocksOfAKey(t *testing.T) {
	server := locktest.NewServer()
	l, other := openMemory(t, server), openMemory(t, server)
	key := pglock.NewKey("k")
	ctx := t.Context()
	lock, err := l.Lock(ctx, key)
	must.Succeed(t, err)
	work := lock.Context(ctx)
	if n := server.Lose(key); n != 1 {
		t.Errorf("Lose took the lock from %d holders", n)
	}
	<-work.Done()
	lost := (*pglock.LostError)(nil)
	if err := context.Cause(work); !errors.As(err, &lost) || lost.Reason != pglock.LostSession {
		t.Errorf("the cause is %v", err)
	}
	again, err := other.TryLock(ctx, key)
	must.Succeed(t, err)
	if err := lock.Unlock(ctx); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("Unlock of a lost lock: %v", err)
	}
	if err := again.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// A helper that opens production's Locker with a list of options can open one in memory with the same list.
func TestMemoryTakesTheOptionsOfProduction(t *testing.T) {
	server := locktest.NewServer()
	l := openMemory(t, server,
		pglock.AllowPooler(), pglock.AllowStandby(), pglock.WithApplicationName("billing"), pglock.WithNames(),
		pglock.WithLease(time.Minute), pglock.WithSessions(1), pglock.WithMaxWaitSessions(2), pglock.WithMaxHeld(3),
		pglock.WithTrustedOwner("owner"), pglock.WithHandoffLimit(1, time.Second))
	lock, err := l.Lock(t.Context(), pglock.NewKey("k"))
	must.Succeed(t, err)
	_, err = openMemory(t, server).Lock(t.Context(), pglock.NewKey("k"), pglock.MaxWait(time.Millisecond))
	if err == nil || !strings.Contains(err.Error(), `held by application "billing"`) {
		t.Errorf("the error is %v", err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
