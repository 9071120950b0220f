//pglock:allow these are tests: many locks are to be refused, or end with their Locker

package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

func (s *suite) maxHold() {
	l, other := s.open(), s.open()
	key := s.key("k")
	lock := s.lock(l, key, pglock.MaxHold(20*time.Millisecond))
	ctx := lock.Context(s.Ctx)
	waiter := s.start(s.Ctx, other, key)
	<-ctx.Done()
	lost := (*pglock.LostError)(nil)
	if err := context.Cause(ctx); !errors.As(err, &lost) || lost.Reason != pglock.LostMaxHold || !lost.Keys[0].Equal(key) {
		s.Errorf("the cause of the lock's context is %v", err)
	}
	s.mustUnlock(waiter.Got(s.Suite)) // although the holder has not unlocked
	if err := lock.Unlock(s.Ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Unlock after MaxHold: got error %v, want one that matches %q", err, pglock.ErrLost)
	}

	extended := s.lock(l, key, pglock.MaxHold(30*time.Millisecond))
	s.Must(extended.Extend(time.Hour))
	select {
	case <-extended.Done():
		s.Errorf("an extended lock ended: %v", extended.Err())
	case <-time.After(60 * time.Millisecond):
	}
	s.mustUnlock(extended)
	if err := extended.Extend(time.Hour); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("Extend after Unlock: got error %v, want one that matches %q", err, pglock.ErrUnlocked)
	}
	s.free(key)
}

func (s *suite) unlock() {
	l := s.open()
	lock := s.lock(l, s.key("k"))
	s.mustUnlock(lock)
	again := s.lock(l, s.key("k"))
	if err := lock.Unlock(s.Ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("a second Unlock: got error %v, want one that matches %q", err, pglock.ErrUnlocked)
	}
	if err := lock.Verify(s.Ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("Verify after Unlock: got error %v, want one that matches %q", err, pglock.ErrUnlocked)
	}
	s.Must(again.Verify(s.Ctx)) // the second Unlock did not hit the next holder's
	var nils atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := again.Unlock(s.Ctx); {
			case err == nil:
				nils.Add(1)
			case !errors.Is(err, pglock.ErrUnlocked):
				s.Error(err)
			}
		})
	}
	wg.Wait()
	if n := nils.Load(); n != 1 {
		s.Errorf("%d of 8 concurrent Unlocks returned nil", n)
	}
	s.free(s.key("k"))
}

func (s *suite) close() {
	l, other := s.open(), s.open()
	key, theirs := s.key("k"), s.key("theirs")
	elsewhere := s.lock(other, theirs)
	holder := s.lock(l, key)
	local, remote := s.start(s.Ctx, l, key), s.start(s.Ctx, l, theirs)
	s.waiting(l, 2)
	select {
	case <-l.Closing():
		s.Error("Closing is closed before Close")
	default:
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close(s.Ctx) }()
	select {
	case <-l.Closing():
	case <-s.Ctx.Done():
		s.Fatal("Closing stays open after Close has begun")
	}
	for _, waiter := range []*attempt{local, remote} {
		waiter.Ended(s.Suite)
		if !errors.Is(waiter.Err, pglock.ErrClosed) {
			s.Errorf("a waiter at Close: %v", waiter.Err)
		}
	}
	if _, err := l.TryLock(s.Ctx, s.key("new")); !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("TryLock after Close: got error %v, want one that matches %q", err, pglock.ErrClosed)
	}
	if err := l.Ping(s.Ctx); !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("Ping after Close: got error %v, want one that matches %q", err, pglock.ErrClosed)
	}
	if err := holder.Err(); err != nil {
		s.Errorf("Close ended a lock while its context lasts: %v", err)
	}
	select {
	case err := <-closed:
		s.Errorf("Close returned %v while a lock was held", err)
	default:
	}
	s.mustUnlock(holder)
	s.Must(<-closed)
	s.Must(l.Close(s.Ctx))
	s.mustUnlock(elsewhere)
	s.free(key, theirs)
}
