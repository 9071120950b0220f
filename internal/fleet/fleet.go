// Package fleet has the work that an Observer watches in the tests of the metrics adapters.
package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// Work does everything that is counted, with the waits and hold times that the tests expect. It runs in a
// testing/synctest bubble.
func Work(t *testing.T, o pglock.Observer) {
	t.Helper()
	ctx, server := t.Context(), locktest.NewServer()
	l, err := server.Locker(pglock.WithObserver(o))
	must.Succeed(t, err)
	other, err := server.Locker()
	must.Succeed(t, err)
	key := pglock.NewKey("invoice:42")
	theirs, err := other.Lock(ctx, key)
	must.Succeed(t, err)
	if _, err := l.TryLock(ctx, key); err == nil {
		t.Error("a lock that is held was acquired")
	}
	if _, err := l.Lock(ctx, key, pglock.MaxWait(2*time.Second)); err == nil {
		t.Error("a lock that is held was acquired")
	}
	time.AfterFunc(4*time.Second, func() { must.Succeed(t, theirs.Unlock(context.Background())) })
	lock, err := l.Lock(ctx, key)
	must.Succeed(t, err)
	time.Sleep(7 * time.Second)
	must.Succeed(t, lock.Unlock(ctx))

	lost, err := l.Lock(ctx, pglock.NewKey("report"))
	must.Succeed(t, err)
	time.Sleep(3 * time.Second)
	server.Lose(pglock.NewKey("report"))
	<-lost.Done()
	_, err = l.Lock(ctx, pglock.NewKey("invoice:43")) // still held at the end
	must.Succeed(t, err)

	sem, err := semaphore.New(l, pglock.NewKey("api"), 1)
	must.Succeed(t, err)
	permit, err := sem.Acquire(ctx)
	must.Succeed(t, err)
	if _, err := sem.Acquire(ctx, pglock.MaxWait(time.Second)); err == nil {
		t.Error("a permit that is held was acquired")
	}
	must.Succeed(t, permit.Release(ctx))

	// The Server in memory has no transactions.
	o(ctx, pglock.Event{Type: pglock.EventTxLocked, Keys: []pglock.Key{key}})
	o(ctx, pglock.Event{
		Type: pglock.EventTxLocked, Use: pglock.Use{Kind: pglock.UsePermit, Key: pglock.NewKey("api")}, Took: time.Second,
	})
	job, err := schedule.New(l, key)
	must.Succeed(t, err)
	due := time.Now()
	work := func(context.Context, *pglock.Lock) error { time.Sleep(5 * time.Second); return nil }
	must.Succeed(t, job.Run(ctx, due, work))
	if err := job.Run(ctx, due, work); !errors.Is(err, pglock.ErrDone) {
		t.Errorf("a run that was done: %v", err)
	}
	synctest.Wait()
}
