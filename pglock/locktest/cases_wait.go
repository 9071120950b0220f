//pglock:allow these are tests: many locks are to be refused, or end with their Locker

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

func (s *suite) contextBoundsTheWait() {
	l := s.open()
	ctx, cancel := context.WithCancel(s.Ctx)
	lock, err := l.Lock(ctx, s.key("k"))
	s.Must(err)
	cancel()
	if err := lock.Err(); err != nil {
		s.Errorf("the lock ended with the context of its acquisition: %v", err)
	}
	s.Must(lock.Verify(s.Ctx))
	if err := lock.Unlock(ctx); err != nil {
		s.Errorf("Unlock with an ended context: %v", err)
	}
	if _, err := l.Lock(ctx, s.key("k")); !errors.Is(err, context.Canceled) {
		s.Errorf("Lock with an ended context: got error %v, want one that matches %q", err, context.Canceled)
	}
	s.free(s.key("k"))
}

func (s *suite) cancelledWait() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holder := s.lock(l, key)
	for _, from := range []*pglock.Locker{l, other} {
		ctx, cancel := context.WithCancel(s.Ctx)
		waiter := s.start(ctx, from, key)
		s.waiting(from, 1)
		cancel()
		waiter.Ended(s.Suite)
		wait := (*pglock.WaitError)(nil)
		if !errors.As(waiter.Err, &wait) || !errors.Is(waiter.Err, context.Canceled) ||
			!errors.Is(waiter.Err, pglock.ErrNotAcquired) || !wait.Keys[0].Equal(key) {
			s.Errorf("a cancelled wait: %v", waiter.Err)
		}
		s.waiting(from, 0)
	}
	s.mustUnlock(holder)
	s.free(key)
}

func (s *suite) maxWait() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holder := s.lock(l, key)
	for _, from := range []*pglock.Locker{l, other} {
		for _, d := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
			if wait := s.failedWait(from, key, d); wait != nil && d > 0 && (wait.Waited < d || len(wait.Holders) != 1) {
				s.Errorf("MaxWait(%v): %+v", d, wait)
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.Ctx, 30*time.Millisecond)
	defer cancel()
	_, err := other.Lock(ctx, key)
	if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a wait that a deadline ends: got error %v, want one that matches %q", err, context.DeadlineExceeded)
	}
	s.mustUnlock(holder)
	s.free(key)
}

// failedWait waits for a held key for d, and returns the error, or nil if it is not what it should be. A wait that has failed
// asks for the holders for a second at most, which may be too short on a busy machine: then it waits again.
func (s *suite) failedWait(from *pglock.Locker, key pglock.Key, d time.Duration) (wait *pglock.WaitError) {
	for range 20 {
		_, err := from.Lock(s.Ctx, key, pglock.MaxWait(d))
		if !errors.As(err, &wait) || errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("MaxWait(%v): %v", d, err)
			return nil
		}
		if d == 0 || len(wait.Holders) > 0 {
			break
		}
	}
	return wait
}

func (s *suite) lockAll() {
	l, other := s.open(), s.open()
	a, b, c := s.key("a"), s.key("b"), pglock.PairKey(-7, int32(rand.Uint32()))
	both, err := l.LockAll(s.Ctx, []pglock.Key{c, a, b, a})
	s.Must(err)
	if len(both.Keys()) != 3 || both.Key().ID() != (pglock.Key{}).ID() {
		s.Errorf("LockAll of three keys, one of them twice, has keys %v", both.Keys())
	}
	for _, from := range []*pglock.Locker{l, other} {
		for _, key := range []pglock.Key{a, b, c} {
			if _, err := from.TryLock(s.Ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
				s.Errorf("TryLock of %v, which is held: %v", key, err)
			}
		}
	}
	s.Must(both.Verify(s.Ctx))
	s.mustUnlock(both)

	one := s.lock(other, b)
	for _, from := range []*pglock.Locker{l, other} {
		if _, err := from.TryLockAll(s.Ctx, []pglock.Key{a, b, c}); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("TryLockAll with one of the keys held: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
		}
		if _, err := from.LockAll(s.Ctx, []pglock.Key{a, b, c}, pglock.MaxWait(20*time.Millisecond)); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("LockAll with one of the keys held: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
		}
	}
	s.free(a, c) // no lock was left
	s.mustUnlock(one)
	s.free(a, b, c)
}

// handoffLimit: while many goroutines of one process pass a lock around, another process gets it too.
func (s *suite) handoffLimit() {
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		hot, other := s.open(pglock.WithHandoffLimit(8, 20*time.Millisecond)), s.open()
		key := s.key("k")
		ctx, stop := context.WithCancel(s.Ctx)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					lock, err := hot.Lock(ctx, key, opts...)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							s.Error(err)
						}
						return
					}
					runtime.Gosched()
					if err := lock.Unlock(ctx); err != nil {
						s.Error(err)
					}
				}
			})
		}
		s.Until("the loop is running", func() bool { return hot.Stats().HandedOff > 100 })
		for range 5 {
			s.mustUnlock(s.lock(other, key))
		}
		stop()
		wg.Wait()
	}
	s.free(s.key("k"))
}
