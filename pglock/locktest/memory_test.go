package locktest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryPassesTheSuite(t *testing.T) {
	server := locktest.NewServer()
	locktest.Exercise(t, func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return openMemory(t, server, opts...)
	})
}

func openMemory(t testing.TB, server *locktest.Server, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	l, err := server.Locker(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestLoseEndsTheLocksOfAKey(t *testing.T) {
	server := locktest.NewServer()
	l, other := openMemory(t, server), openMemory(t, server)
	key := pglock.NewKey("k")
	ctx := t.Context()
	lock, err := l.Lock(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(ctx); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("Unlock of a lost lock: %v", err)
	}
	if err := again.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

func TestOptionsThatMemoryCannotHonourAreRefused(t *testing.T) {
	for _, opt := range []pglock.Option{pglock.AllowPooler(), pglock.AllowStandby(), pglock.WithApplicationName("x"), pglock.WithNames(), pglock.WithLease(time.Minute)} {
		if _, err := locktest.NewMemory(opt); !errors.Is(err, pglock.ErrUnsupported) {
			t.Errorf("the error is %v", err)
		}
	}
}
