//pglock:allow these are tests: many locks are to be refused, or end with their Locker

package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock"
)

func (s *suite) lockAndUnlock() {
	l, other := s.open(), s.open()
	s.Must(l.Ping(s.Ctx))
	key := s.key("k")
	lock := s.lock(l, key)
	if !lock.Key().Equal(key) || len(lock.Keys()) != 1 || lock.Token() == "" {
		s.Errorf("the lock has key %v, keys %v, token %q", lock.Key(), lock.Keys(), lock.Token())
	}
	if err := lock.Err(); err != nil {
		s.Errorf("Err of a held lock is %v", err)
	}
	s.Must(lock.Verify(s.Ctx))
	if _, err := other.TryLock(s.Ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("another process's TryLock of a held key: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
	}
	s.mustUnlock(lock)
	s.wantUnlocked(lock)
	s.mustUnlock(s.lock(other, key))
	if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 || stats.Acquired != 1 {
		s.Errorf("Stats at the end: %+v", stats)
	}
}

func (s *suite) wantUnlocked(lock *pglock.Lock) {
	s.Helper()
	select {
	case <-lock.Done():
	default:
		s.Error("Done is open after Unlock")
	}
	if err := lock.Err(); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("Err after Unlock is %v", err)
	}
}

func (s *suite) notReentrant() {
	l := s.open()
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		lock := s.lock(l, s.key("k"))
		if _, err := l.TryLock(s.Ctx, s.key("k"), opts...); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("a second TryLock in the same process: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
		}
		s.mustUnlock(lock)
	}
	s.free(s.key("k"))
}

func (s *suite) shared() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holders := []*pglock.Lock{
		s.lock(l, key, pglock.Shared()), s.lock(l, key, pglock.Shared()), s.lock(other, key, pglock.Shared()),
	}
	last, err := l.TryLock(s.Ctx, key, pglock.Shared())
	s.Must(err)
	for _, lock := range append(holders, last) {
		for _, from := range []*pglock.Locker{l, other} {
			if _, err := from.TryLock(s.Ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
				s.Errorf("an exclusive TryLock beside shared holders: got error %v, want one that matches %q", err, pglock.ErrNotAcquired)
			}
		}
		s.Must(lock.Verify(s.Ctx))
		s.mustUnlock(lock)
	}
	s.free(key)
}

func (s *suite) writerNotStarved() {
	l, other := s.open(), s.open()
	key := s.key("k")
	reader := s.lock(l, key, pglock.Shared())
	for _, from := range []*pglock.Locker{l, other} {
		writer := s.start(s.Ctx, from, key)
		s.waiting(from, 1)
		s.Until("the writer's wait is seen", func() bool { // the wait of another process takes a moment to be visible
			late, err := l.TryLock(s.Ctx, key, pglock.Shared())
			if err == nil {
				s.mustUnlock(late)
			}
			return err != nil
		})
		s.mustUnlock(reader)
		s.mustUnlock(writer.Got(s.Suite))
		reader = s.lock(l, key, pglock.Shared())
	}
	s.mustUnlock(reader)
	s.free(key)
}

func (s *suite) firstComeFirstServed() {
	var inLine atomic.Int32 // unlike Stats, without a call that has not got there yet
	l := s.open(pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		if e.Type == pglock.EventWaitStarted {
			inLine.Add(1)
		}
	}))
	key := s.key("k")
	first := s.lock(l, key)
	var order []int
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			lock, err := l.Lock(s.Ctx, key)
			if err != nil {
				s.Error(err)
				return
			}
			order = append(order, i) // guarded by the lock itself
			if err := lock.Unlock(s.Ctx); err != nil {
				s.Error(err)
			}
		})
		s.Until("it stands in line", func() bool { return int(inLine.Load()) == i+1 })
	}
	s.mustUnlock(first)
	wg.Wait()
	if len(order) != n || !slices.IsSorted(order) {
		s.Errorf("the waiters were served in the order %v", order)
	}
}

func (s *suite) holders() {
	l, other := s.open(), s.open()
	key := s.key("k")
	if holders, err := other.Holders(s.Ctx, key); err != nil || len(holders) != 0 {
		s.Errorf("Holders of a free key: %v, %v", holders, err)
	}
	lock := s.lock(l, key)
	if holders, err := other.Holders(s.Ctx, key); err != nil || len(holders) != 1 || holders[0].Shared {
		s.Errorf("Holders of a held key: %v, %v", holders, err)
	}
	if holders, err := l.Holders(s.Ctx, key); err != nil || len(holders) != 1 || !holders[0].Self {
		s.Errorf("Holders of a key that this Locker holds: %v, %v; want one with Self", holders, err)
	}
	s.mustUnlock(lock)
	mine, theirs := s.lock(l, key, pglock.Shared()), s.lock(other, key, pglock.Shared())
	if holders, err := other.Holders(s.Ctx, key); err != nil || len(holders) != 2 || !holders[0].Shared {
		s.Errorf("Holders of a shared key: %v, %v", holders, err)
	}
	s.mustUnlock(mine)
	s.mustUnlock(theirs)
}

func (s *suite) fence() {
	lockers := []*pglock.Locker{s.open(), s.open()}
	last := int64(-1)
	for i := range 20 {
		lock := s.lock(lockers[i%2], s.key("k"))
		number, err := lock.Fence(s.Ctx)
		if errors.Is(err, pglock.ErrUnsupported) || errors.Is(err, pglock.ErrSchemaMissing) {
			s.Logf("this backend has no fence: %v", err)
			s.mustUnlock(lock)
			return
		}
		s.Must(err)
		if again, err := lock.Fence(s.Ctx); err != nil || again != number {
			s.Errorf("a second Fence returned %d after %d, %v", again, number, err)
		}
		if number <= last {
			s.Errorf("Fence returned %d after %d", number, last)
		}
		last = number
		s.mustUnlock(lock)
		if i == 0 {
			continue
		}
		if again, err := lock.Fence(s.Ctx); err != nil || again != number {
			s.Errorf("Fence after Unlock returned %d, %v; it was %d", again, err, number)
		}
	}
	late := s.lock(lockers[0], s.key("k"))
	s.mustUnlock(late)
	if _, err := late.Fence(s.Ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("a first Fence after Unlock: got error %v, want one that matches %q", err, pglock.ErrUnlocked)
	}
}
