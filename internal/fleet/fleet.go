// Package fleet has the work that an Observer watches in the tests of the metrics adapters.
package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// Work does everything that is counted, with the waits and hold times that the tests expect. It runs in a
// testing/synctest bubble.
func Work(t *testing.T, o *pglock.Observer) {
	t.Helper()
	ctx, server := t.Context(), locktest.NewServer()
	l, err := server.Locker(pglock.WithObserver(o))
	check(t, err)
	other, err := server.Locker()
	check(t, err)
	key := pglock.NewKey("invoice:42")
	theirs, err := other.Lock(ctx, key)
	check(t, err)
	if _, err := l.TryLock(ctx, key); err == nil {
		t.Error("a lock that is held was acquired")
	}
	if _, err := l.Lock(ctx, key, pglock.MaxWait(2*time.Second)); err == nil {
		t.Error("a lock that is held was acquired")
	}
	time.AfterFunc(4*time.Second, func() { check(t, theirs.Unlock(context.Background())) })
	lock, err := l.Lock(ctx, key)
	check(t, err)
	time.Sleep(7 * time.Second)
	check(t, lock.Unlock(ctx))

	lost, err := l.Lock(ctx, pglock.NewKey("report"))
	check(t, err)
	time.Sleep(3 * time.Second)
	server.Lose(pglock.NewKey("report"))
	<-lost.Done()
	_, err = l.Lock(ctx, pglock.NewKey("invoice:43")) // still held at the end
	check(t, err)

	sem, err := semaphore.New(l, pglock.NewKey("api"), 1)
	check(t, err)
	permit, err := sem.Acquire(ctx)
	check(t, err)
	if _, err := sem.Acquire(ctx, pglock.MaxWait(time.Second)); err == nil {
		t.Error("a permit that is held was acquired")
	}
	check(t, permit.Release(ctx))
	synctest.Wait()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
