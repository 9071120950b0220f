package pglock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// farBackend is a backend whose server is a second away.
type farBackend struct {
	driver.Backend
	acquires, releases atomic.Int32
	sameSession        bool // it cannot be asked but on the session that has the key
}

func (b *farBackend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	b.acquires.Add(1)
	time.Sleep(time.Second)
	if b.sameSession && r.Beside != nil {
		return r.Beside, nil
	}
	return b.Backend.Acquire(ctx, r)
}

func (b *farBackend) Release(ctx context.Context, g driver.Grant) error {
	b.releases.Add(1)
	time.Sleep(time.Second)
	return b.Backend.Release(ctx, g)
}

// newFar returns a Locker on a far server, and another near it, both in a bubble of synctest.
func newFar(t *testing.T, opts ...pglock.Option) (far *pglock.Locker, b *farBackend, near *pglock.Locker) {
	server := locktest.NewServer()
	base, err := server.Locker()
	txCheck(t, err)
	backend, err := hooks.Backend(base)
	txCheck(t, err)
	b = &farBackend{Backend: backend}
	far, err = pglock.NewWithBackend(b, opts...)
	txCheck(t, err)
	near, err = server.Locker()
	txCheck(t, err)
	return far, b, near
}

// Tries that come while another is asking wait for the answer, and not for a holder.
func TestSharedTriesWaitForTheServerAndNotForHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b, near := newFar(t)
		key := pglock.NewKey("k")
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				lock, err := l.TryLock(t.Context(), key, pglock.Shared())
				txCheck(t, err)
				time.Sleep(time.Millisecond)
				mustUnlock(t, lock)
			})
		}
		if all.Wait(); b.acquires.Load() != 1 || b.releases.Load() != 1 {
			t.Errorf("%d requests and %d releases for one shared key", b.acquires.Load(), b.releases.Load())
		}
		writer := mustLock(t, near, key)
		waiter := txGo(func() error { return l.Do(t.Context(), key, nothing, pglock.Shared()) })
		synctest.Wait()
		began := time.Now()
		if _, err := l.TryLock(t.Context(), key, pglock.Shared()); !errors.Is(err, pglock.ErrNotAcquired) || time.Since(began) > time.Second {
			t.Errorf("a try beside a reader that waits for a writer: %v, after %v", err, time.Since(began))
		}
		mustUnlock(t, writer)
		txCheck(t, <-waiter)
	})
}

// The last holder unlocks while a newcomer is asking. The newcomer has what the server gives it, or else asks again when the release
// is confirmed.
func TestSharedNewcomerMeetsTheLastUnlock(t *testing.T) {
	for _, sameSession := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, b, near := newFar(t, pglock.WithHandoffLimit(0, 0))
			b.sameSession = sameSession
			key := pglock.NewKey("k")
			last, newcomer := mustLock(t, l, key, pglock.Shared()), make(chan *pglock.Lock)
			go func() { newcomer <- mustLock(t, l, key, pglock.Shared()) }()
			synctest.Wait()
			mustUnlock(t, last)
			lock := <-newcomer
			txCheck(t, lock.Verify(t.Context()))
			mustUnlock(t, lock)
			mustUnlock(t, mustLock(t, near, key)) // nothing is left
			if l.Stats().Held != 0 || b.releases.Load() != 2 {
				t.Errorf("%+v, and %d releases", l.Stats(), b.releases.Load())
			}
			txCheck(t, l.Close(t.Context()))
		})
	}
}

// A newcomer that has asked gives back what it has got before it returns: so the last Unlock leaves the key free.
func TestSharedKeyIsFreeAfterTheLastUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b, near := newFar(t, pglock.WithHandoffLimit(0, 0))
		key := pglock.NewKey("k")
		first, second := mustLock(t, l, key, pglock.Shared()), mustLock(t, l, key, pglock.Shared())
		both, err := l.LockAll(t.Context(), []pglock.Key{key, pglock.NewKey("other")}, pglock.Shared())
		txCheck(t, err)
		for _, lock := range []*pglock.Lock{first, second, both} {
			if _, err := near.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrNotAcquired) {
				t.Errorf("a writer beside readers: %v", err)
			}
			mustUnlock(t, lock)
		}
		writer, err := near.TryLock(t.Context(), key)
		txCheck(t, err)
		mustUnlock(t, writer)
		if b.acquires.Load() != 4 || b.releases.Load() != 4 {
			t.Errorf("%d requests and %d releases, want four of each", b.acquires.Load(), b.releases.Load())
		}
	})
}

// So many holders join a shared key unasked, and again after each that has asked.
func TestSharedHandoffLimitCountsFromTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b, _ := newFar(t, pglock.WithHandoffLimit(2, time.Hour))
		var locks []*pglock.Lock
		for range 7 {
			locks = append(locks, mustLock(t, l, pglock.NewKey("k"), pglock.Shared()))
		}
		if n := b.acquires.Load(); n != 3 {
			t.Errorf("7 holders asked %d times", n)
		}
		for _, lock := range locks {
			mustUnlock(t, lock)
		}
	})
}

// A loss ends every Lock of a shared key, each with one report, and what else they hold is released.
func TestSharedHoldersAreEachToldOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewServer()
		var lost atomic.Int32
		l, err := server.Locker(pglock.WithObserver(func(_ context.Context, e pglock.Event) {
			if e.Type == pglock.EventLost {
				lost.Add(1)
			}
		}))
		txCheck(t, err)
		other, err := server.Locker()
		txCheck(t, err)
		a, b := pglock.NewKey("a"), pglock.NewKey("b")
		locks := []*pglock.Lock{mustLock(t, l, a, pglock.Shared()), mustLock(t, l, a, pglock.Shared())}
		both, err := l.LockAll(t.Context(), []pglock.Key{a, b}, pglock.Shared())
		txCheck(t, err)
		reader := mustLock(t, l, b, pglock.Shared())
		server.Lose(a)
		synctest.Wait()
		for _, lock := range append(locks, both) {
			wantLost(t, lock.Err(), pglock.LostSession)
		}
		if stats := l.Stats(); lost.Load() != 3 || stats.Lost != 3 || stats.Held != 1 {
			t.Errorf("%d losses were reported, %+v", lost.Load(), stats)
		}
		txCheck(t, reader.Err())
		mustUnlock(t, reader)
		writer, err := other.TryLock(t.Context(), b)
		txCheck(t, err)
		mustUnlock(t, writer)
	})
}
