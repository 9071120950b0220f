package pglock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// leased is a backend that grants everything, with a lease that the test sets, and reports no loss itself.
type leased struct {
	until    atomic.Int64
	released atomic.Int32
}

func (b *leased) Deadline() driver.Instant { return driver.Instant(b.until.Load()) }

func (*leased) Start(driver.Config) error                 { return nil }
func (*leased) Ping(context.Context) error                { return nil }
func (*leased) Check(context.Context, driver.Grant) error { return nil }
func (*leased) Holders(context.Context, driver.Key) ([]driver.Holder, error) {
	return []driver.Holder{}, nil
}
func (*leased) Close(context.Context) error                                     { return nil }
func (b *leased) Acquire(context.Context, driver.Request) (driver.Grant, error) { return b, nil }
func (b *leased) Release(context.Context, driver.Grant) error                   { b.released.Add(1); return nil }

// The process was frozen beyond the lease: no timer and no heartbeat has run before the lock is used.
func TestLeaseTheFirstLookAfterTheLeaseTells(t *testing.T) {
	for name, look := range map[string]func(*pglock.Lock, context.Context) error{
		"Lock.Err":         func(k *pglock.Lock, _ context.Context) error { return k.Err() },
		"Lock.Context.Err": func(_ *pglock.Lock, ctx context.Context) error { _ = ctx.Err(); return context.Cause(ctx) },
		"Lock.Verify":      func(k *pglock.Lock, _ context.Context) error { return k.Verify(context.Background()) },
		"Lock.Unlock":      func(k *pglock.Lock, _ context.Context) error { return k.Unlock(context.Background()) },
		"Lock.Extend":      func(k *pglock.Lock, _ context.Context) error { return k.Extend(time.Hour) },
		"a context after it": func(k *pglock.Lock, _ context.Context) error {
			ctx := k.Context(context.Background())
			_ = ctx.Err()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			backend := &leased{}
			backend.until.Store(int64(driver.Now().Add(time.Hour)))
			l, err := pglock.NewWithBackend(backend)
			must.Succeed(t, err)
			lock := mustLock(t, l, pglock.NewKey("k"))
			ctx := lock.Context(t.Context())
			if lock.Err() != nil || ctx.Err() != nil {
				t.Fatalf("before: %v, %v", lock.Err(), ctx.Err())
			}
			backend.until.Store(int64(driver.Now()))
			wantLost(t, look(lock, ctx), pglock.LostLease)
			if ctx.Err() != context.Canceled {
				t.Errorf("afterwards the context's Err is %v", ctx.Err())
			}
			awaitDone(t, lock.Done(), "Done")
			mustUnlock(t, mustLockAgain(t, backend, l))
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// mustLockAgain locks again, under a new lease.
func mustLockAgain(t *testing.T, backend *leased, l *pglock.Locker) *pglock.Lock {
	backend.until.Store(int64(driver.Now().Add(time.Hour)))
	return mustLock(t, l, pglock.NewKey("k"))
}

func TestLeaseMaxHoldCountsFromTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewServer()
		l, err := server.Locker()
		must.Succeed(t, err)
		first := mustLock(t, l, pglock.NewKey("k"))
		granted := make(chan *pglock.Lock)
		go func() { granted <- mustLock(t, l, pglock.NewKey("k"), pglock.MaxHold(time.Second)) }()
		synctest.Wait()
		time.Sleep(30 * time.Second) // of the bubble's clock
		mustUnlock(t, first)
		second := <-granted
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if err := second.Err(); err != nil {
			t.Errorf("just before MaxHold: %v", err)
		}
		if err := second.Extend(time.Minute); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if err := second.Err(); err != nil {
			t.Errorf("just before the extended deadline: %v", err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		select {
		case <-second.Done():
		default:
			t.Error("the lock is held after its deadline")
		}
		wantLost(t, second.Err(), pglock.LostMaxHold)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A hold that is lost between being handed off and being returned must still end the Lock that it became.
func TestLeaseALossMeetsAHandoff(t *testing.T) {
	key := pglock.NewKey("k")
	server := locktest.NewServer()
	l, err := server.Locker()
	must.Succeed(t, err)
	for range 300 {
		first := mustLock(t, l, key)
		second := make(chan *pglock.Lock)
		go func() { second <- mustLock(t, l, key) }()
		lost := make(chan int)
		go func() { lost <- server.Lose(key) }()
		if err := first.Unlock(t.Context()); err != nil && !errors.Is(err, pglock.ErrLost) {
			t.Error(err)
		}
		<-lost
		k := <-second
		// Whichever came first, the backend and the Lock must agree.
		if err := k.Verify(t.Context()); (err == nil) != (k.Err() == nil) {
			t.Errorf("Verify says %v, Err %v", err, k.Err())
		}
		if err := k.Unlock(t.Context()); err != nil && !errors.Is(err, pglock.ErrLost) {
			t.Error(err)
		}
	}
	if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
		t.Errorf("in the end: %+v", stats)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
