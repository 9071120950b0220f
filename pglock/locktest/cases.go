package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"strings"
)

func (s *suite) lockAndUnlock() {
	l, other := s.open(), s.open()
	s.must(l.Ping(s.ctx))
	key := s.key("k")
	lock := s.lock(l, key)
	if !lock.Key().Equal(key) || len(lock.Keys()) != 1 || lock.Token() == "" {
		s.Errorf("the lock has key %v, keys %v, token %q", lock.Key(), lock.Keys(), lock.Token())
	}
	if err := lock.Err(); err != nil {
		s.Errorf("Err of a held lock is %v", err)
	}
	s.must(lock.Verify(s.ctx))
	if _, err := other.TryLock(s.ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("another process's TryLock of a held key: %v", err)
	}
	s.unlock1(lock)
	s.ended1(lock)
	second := s.lock(other, key, pglock.WithToken("mine"))
	if second.Token() != "mine" {
		s.Errorf("WithToken: the token is %q", second.Token())
	}
	s.unlock1(second)
	if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 || stats.Acquired != 1 {
		s.Errorf("Stats in the end: %+v", stats)
	}
}

func (s *suite) ended1(lock *pglock.Lock) {
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
		if _, err := l.TryLock(s.ctx, s.key("k"), opts...); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("a second TryLock in the same process: %v", err)
		}
		s.unlock1(lock)
	}
	s.free(s.key("k"))
}

func (s *suite) shared() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holders := []*pglock.Lock{
		s.lock(l, key, pglock.Shared()), s.lock(l, key, pglock.Shared()), s.lock(other, key, pglock.Shared()),
	}
	last, err := l.TryLock(s.ctx, key, pglock.Shared())
	s.must(err)
	for _, lock := range append(holders, last) {
		for _, from := range []*pglock.Locker{l, other} {
			if _, err := from.TryLock(s.ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
				s.Errorf("an exclusive TryLock beside shared holders: %v", err)
			}
		}
		s.must(lock.Verify(s.ctx))
		s.unlock1(lock)
	}
	s.free(key)
}

func (s *suite) writerNotStarved() {
	l, other := s.open(), s.open()
	key := s.key("k")
	reader := s.lock(l, key, pglock.Shared())
	for _, from := range []*pglock.Locker{l, other} {
		writer := s.start(s.ctx, from, key)
		s.waiting(from, 1)
		s.until("the writer's wait is seen", func() bool { // from another process it takes a moment to arrive
			late, err := l.TryLock(s.ctx, key, pglock.Shared())
			if err == nil {
				s.unlock1(late)
			}
			return err != nil
		})
		s.unlock1(reader)
		s.unlock1(s.got(writer))
		reader = s.lock(l, key, pglock.Shared())
	}
	s.unlock1(reader)
	s.free(key)
}

func (s *suite) firstComeFirstServed() {
	l := s.open()
	key := s.key("k")
	first := s.lock(l, key)
	var order []int
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			lock, err := l.Lock(s.ctx, key)
			if err != nil {
				s.Error(err)
				return
			}
			order = append(order, i) // guarded by the lock itself
			if err := lock.Unlock(s.ctx); err != nil {
				s.Error(err)
			}
		})
		s.waiting(l, i+1)
	}
	s.unlock1(first)
	wg.Wait()
	if len(order) != n || !slices.IsSorted(order) {
		s.Errorf("the waiters were served in the order %v", order)
	}
}

func (s *suite) contextBoundsTheWait() {
	l := s.open()
	ctx, cancel := context.WithCancel(s.ctx)
	lock, err := l.Lock(ctx, s.key("k"))
	s.must(err)
	cancel()
	if err := lock.Err(); err != nil {
		s.Errorf("the lock ended with the context of its acquisition: %v", err)
	}
	s.must(lock.Verify(s.ctx))
	if err := lock.Unlock(ctx); err != nil {
		s.Errorf("Unlock with an ended context: %v", err)
	}
	if _, err := l.Lock(ctx, s.key("k")); !errors.Is(err, context.Canceled) {
		s.Errorf("Lock with an ended context: %v", err)
	}
	s.free(s.key("k"))
}

func (s *suite) cancelledWait() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holder := s.lock(l, key)
	for _, from := range []*pglock.Locker{l, other} {
		ctx, cancel := context.WithCancel(s.ctx)
		waiter := s.start(ctx, from, key)
		s.waiting(from, 1)
		cancel()
		s.ended(waiter)
		wait := (*pglock.WaitError)(nil)
		if !errors.As(waiter.err, &wait) || !errors.Is(waiter.err, context.Canceled) ||
			!errors.Is(waiter.err, pglock.ErrNotAcquired) || !wait.Key.Equal(key) {
			s.Errorf("a cancelled wait: %v", waiter.err)
		}
		s.waiting(from, 0)
	}
	s.unlock1(holder)
	s.free(key)
}

func (s *suite) maxWait() {
	l, other := s.open(), s.open()
	key := s.key("k")
	holder := s.lock(l, key)
	for _, from := range []*pglock.Locker{l, other} {
		for _, d := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
			_, err := from.Lock(s.ctx, key, pglock.MaxWait(d))
			wait := (*pglock.WaitError)(nil)
			if !errors.As(err, &wait) || errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("MaxWait(%v): %v", d, err)
				continue
			}
			if d > 0 && (wait.Waited < d || len(wait.Holders) != 1) {
				s.Errorf("MaxWait(%v): %+v", d, wait)
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Millisecond)
	defer cancel()
	_, err := other.Lock(ctx, key)
	if wait := (*pglock.WaitError)(nil); !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a wait that a deadline ends: %v", err)
	}
	s.unlock1(holder)
	s.free(key)
}

func (s *suite) lockAll() {
	l, other := s.open(), s.open()
	a, b, c := s.key("a"), s.key("b"), pglock.PairKey(-7, int32(rand.Uint32()))
	both, err := l.LockAll(s.ctx, []pglock.Key{c, a, b, a})
	s.must(err)
	if len(both.Keys()) != 3 || both.Key().ID() != (pglock.Key{}).ID() {
		s.Errorf("LockAll of three keys, one of them twice, has keys %v", both.Keys())
	}
	for _, from := range []*pglock.Locker{l, other} {
		for _, key := range []pglock.Key{a, b, c} {
			if _, err := from.TryLock(s.ctx, key); !errors.Is(err, pglock.ErrNotAcquired) {
				s.Errorf("TryLock of %v, which is held: %v", key, err)
			}
		}
	}
	s.must(both.Verify(s.ctx))
	s.unlock1(both)

	one := s.lock(other, b)
	for _, from := range []*pglock.Locker{l, other} {
		if _, err := from.TryLockAll(s.ctx, []pglock.Key{a, b, c}); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("TryLockAll with one of the keys held: %v", err)
		}
		if _, err := from.LockAll(s.ctx, []pglock.Key{a, b, c}, pglock.MaxWait(20*time.Millisecond)); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("LockAll with one of the keys held: %v", err)
		}
	}
	s.free(a, c) // nothing stayed behind
	s.unlock1(one)
	s.free(a, b, c)
}

func (s *suite) lockAllOrder() {
	lockers := []*pglock.Locker{s.open(), s.open()}
	keys := make([]pglock.Key, 5)
	for i := range keys {
		keys[i] = s.key(string(rune('a' + i)))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		l := lockers[i%2]
		wg.Go(func() {
			for range 25 {
				some := slices.Clone(keys)
				rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				lock, err := l.LockAll(s.ctx, some[:1+rand.IntN(len(some))])
				if err == nil {
					err = lock.Unlock(s.ctx)
				}
				if err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.free(keys...)
}

func (s *suite) maxHold() {
	l, other := s.open(), s.open()
	key := s.key("k")
	lock := s.lock(l, key, pglock.MaxHold(20*time.Millisecond))
	ctx := lock.Context(s.ctx)
	waiter := s.start(s.ctx, other, key)
	<-ctx.Done()
	lost := (*pglock.LostError)(nil)
	if err := context.Cause(ctx); !errors.As(err, &lost) || lost.Reason != pglock.LostMaxHold || !lost.Key.Equal(key) {
		s.Errorf("the cause of the lock's context is %v", err)
	}
	s.unlock1(s.got(waiter)) // although the holder has not unlocked
	if err := lock.Unlock(s.ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Unlock after MaxHold: %v", err)
	}

	extended := s.lock(l, key, pglock.MaxHold(30*time.Millisecond))
	s.must(extended.Extend(time.Hour))
	select {
	case <-extended.Done():
		s.Errorf("an extended lock ended: %v", extended.Err())
	case <-time.After(60 * time.Millisecond):
	}
	s.unlock1(extended)
	if err := extended.Extend(time.Hour); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("Extend after Unlock: %v", err)
	}
	s.free(key)
}

func (s *suite) unlock() {
	l := s.open()
	lock := s.lock(l, s.key("k"))
	s.unlock1(lock)
	again := s.lock(l, s.key("k"))
	if err := lock.Unlock(s.ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("a second Unlock: %v", err)
	}
	if err := lock.Verify(s.ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("Verify after Unlock: %v", err)
	}
	s.must(again.Verify(s.ctx)) // the second Unlock did not hit the next holder's
	var nils atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := again.Unlock(s.ctx); {
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

func (s *suite) lockContext() {
	l := s.open()
	lock := s.lock(l, s.key("k"))
	parent, cancel := context.WithCancelCause(s.ctx)
	ctx, independent := lock.Context(parent), lock.Context(context.Background())
	child, cancelChild := context.WithCancel(independent)
	defer cancelChild()
	mine := errors.New("mine")
	cancel(mine)
	<-ctx.Done()
	if context.Cause(ctx) != mine || ctx.Err() != context.Canceled {
		s.Errorf("a parent's end: Err %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	if independent.Err() != nil || lock.Err() != nil {
		s.Errorf("a parent's end reached elsewhere: %v, %v", independent.Err(), lock.Err())
	}
	s.unlock1(lock)
	<-child.Done()
	for _, ended := range []context.Context{independent, child, lock.Context(context.Background())} {
		if !errors.Is(context.Cause(ended), pglock.ErrUnlocked) || ended.Err() != context.Canceled {
			s.Errorf("the lock's end: Err %v, cause %v", ended.Err(), context.Cause(ended))
		}
	}
}

func (s *suite) do() {
	l := s.open()
	key := s.key("k")
	mine := errors.New("mine")
	err := l.Do(s.ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		err := l.TryDo(ctx, key, func(context.Context, *pglock.Lock) error { return errors.New("ran") })
		if !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("TryDo of a held key: %v", err)
		}
		return mine
	})
	if err != mine {
		s.Errorf("Do returned %v", err)
	}
	s.must(l.TryDo(s.ctx, key, func(ctx context.Context, lock *pglock.Lock) error { return lock.Unlock(ctx) }))

	func() {
		defer func() {
			if r := recover(); r != "boom" {
				s.Errorf("the panic came out as %v", r)
			}
		}()
		_ = l.Do(s.ctx, key, func(context.Context, *pglock.Lock) error { panic("boom") })
	}()
	s.free(key)

	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = l.Do(s.ctx, key, func(context.Context, *pglock.Lock) error { runtime.Goexit(); return nil })
	}()
	<-gone
	s.free(key)

	err = l.Do(s.ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		<-ctx.Done()
		return mine
	}, pglock.MaxHold(10*time.Millisecond))
	if !errors.Is(err, pglock.ErrLost) || !errors.Is(err, mine) {
		s.Errorf("Do with a lost lock returned %v", err)
	}
	s.unlock1(s.lock(s.open(), key)) // MaxHold gives the lock back in the background
}

func (s *suite) holders() {
	l, other := s.open(), s.open()
	key := s.key("k")
	if holders, err := other.Holders(s.ctx, key); err != nil || len(holders) != 0 {
		s.Errorf("Holders of a free key: %v, %v", holders, err)
	}
	lock := s.lock(l, key)
	if holders, err := other.Holders(s.ctx, key); err != nil || len(holders) != 1 || holders[0].Shared {
		s.Errorf("Holders of a held key: %v, %v", holders, err)
	}
	s.unlock1(lock)
	mine, theirs := s.lock(l, key, pglock.Shared()), s.lock(other, key, pglock.Shared())
	if holders, err := other.Holders(s.ctx, key); err != nil || len(holders) != 2 || !holders[0].Shared {
		s.Errorf("Holders of a shared key: %v, %v", holders, err)
	}
	s.unlock1(mine)
	s.unlock1(theirs)
}

func (s *suite) fence() {
	lockers := []*pglock.Locker{s.open(), s.open()}
	last := int64(-1)
	for i := range 20 {
		lock := s.lock(lockers[i%2], s.key("k"))
		number, err := lock.Fence(s.ctx)
		if errors.Is(err, pglock.ErrUnsupported) || errors.Is(err, pglock.ErrSchemaMissing) {
			s.Logf("this backend has no fence: %v", err)
			s.unlock1(lock)
			return
		}
		s.must(err)
		if again, err := lock.Fence(s.ctx); err != nil || again != number {
			s.Errorf("a second Fence returned %d after %d, %v", again, number, err)
		}
		if number <= last {
			s.Errorf("Fence returned %d after %d", number, last)
		}
		last = number
		s.unlock1(lock)
		if i == 0 {
			continue
		}
		if again, err := lock.Fence(s.ctx); err != nil || again != number {
			s.Errorf("Fence after Unlock returned %d, %v; it was %d", again, err, number)
		}
	}
	late := s.lock(lockers[0], s.key("k"))
	s.unlock1(late)
	if _, err := late.Fence(s.ctx); !errors.Is(err, pglock.ErrUnlocked) {
		s.Errorf("a first Fence after Unlock: %v", err)
	}
}

// handoffLimit: while many goroutines of one process pass a lock around, another process gets it too.
func (s *suite) handoffLimit() {
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		hot, other := s.open(pglock.WithHandoffLimit(8, 20*time.Millisecond)), s.open()
		key := s.key("k")
		ctx, stop := context.WithCancel(s.ctx)
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
		s.until("the loop is hot", func() bool { return hot.Stats().HandedOff > 100 })
		for range 5 {
			s.unlock1(s.lock(other, key))
		}
		stop()
		wg.Wait()
	}
	s.free(s.key("k"))
}

// mutualExclusion: what the lock guards is not atomic, so that the race detector helps.
func (s *suite) mutualExclusion() {
	lockers := []*pglock.Locker{s.open(), s.open(), s.open()}
	key := s.key("k")
	const workers, rounds = 12, 30
	var writers, readers atomic.Int32
	total := 0
	var wg sync.WaitGroup
	for i := range workers {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for round := range rounds {
				if (i+round)%3 == 0 {
					s.inside(l, key, func() {
						readers.Add(1)
						if n := writers.Load(); n != 0 {
							s.Errorf("a reader is inside with %d writers", n)
						}
						runtime.Gosched()
						_ = total
						readers.Add(-1)
					}, pglock.Shared())
					continue
				}
				s.inside(l, key, func() {
					if n, m := writers.Add(1), readers.Load(); n != 1 || m != 0 {
						s.Errorf("%d writers and %d readers are inside together", n, m)
					}
					total++
					runtime.Gosched()
					writers.Add(-1)
				})
			}
		})
	}
	wg.Wait()
	if want := workers * rounds * 2 / 3; total != want {
		s.Errorf("the counter is at %d, want %d", total, want)
	}
	s.free(key)
}

func (s *suite) inside(l *pglock.Locker, key pglock.Key, work func(), opts ...pglock.LockOption) {
	lock, err := l.Lock(s.ctx, key, opts...)
	if err != nil {
		s.Error(err)
		return
	}
	work()
	if err := lock.Unlock(s.ctx); err != nil {
		s.Error(err)
	}
}

func (s *suite) cancelStorm() {
	lockers := []*pglock.Locker{s.open(), s.open()}
	keys := []pglock.Key{s.key("a"), s.key("b")}
	var wg sync.WaitGroup
	for i := range 8 {
		l := lockers[i%2]
		wg.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(s.ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
				var lock *pglock.Lock
				var err error
				switch rand.IntN(4) {
				case 0:
					lock, err = l.LockAll(ctx, keys)
				case 1:
					lock, err = l.Lock(ctx, keys[rand.IntN(2)], pglock.Shared())
				default:
					lock, err = l.Lock(ctx, keys[rand.IntN(2)])
				}
				cancel()
				if err == nil {
					err = lock.Unlock(s.ctx)
				} else if errors.Is(err, context.DeadlineExceeded) {
					err = nil
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lockers {
		if stats := l.Stats(); stats.Held != 0 || stats.Waiting != 0 {
			s.Errorf("after the storm: %+v", stats)
		}
	}
	s.free(keys...)
}

func (s *suite) close() {
	l, other := s.open(), s.open()
	key, theirs := s.key("k"), s.key("theirs")
	elsewhere := s.lock(other, theirs)
	holder := s.lock(l, key)
	local, remote := s.start(s.ctx, l, key), s.start(s.ctx, l, theirs)
	s.waiting(l, 2)
	select {
	case <-l.Closing():
		s.Error("Closing is closed before Close")
	default:
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close(s.ctx) }()
	select {
	case <-l.Closing():
	case <-s.ctx.Done():
		s.Fatal("Closing stays open after Close has begun")
	}
	for _, waiter := range []*attempt{local, remote} {
		s.ended(waiter)
		if !errors.Is(waiter.err, pglock.ErrClosed) {
			s.Errorf("a waiter at Close: %v", waiter.err)
		}
	}
	if _, err := l.TryLock(s.ctx, s.key("new")); !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("TryLock after Close: %v", err)
	}
	if err := l.Ping(s.ctx); !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("Ping after Close: %v", err)
	}
	if err := holder.Err(); err != nil {
		s.Errorf("Close ended a lock while its context lasts: %v", err)
	}
	select {
	case err := <-closed:
		s.Errorf("Close returned %v while a lock was held", err)
	default:
	}
	s.unlock1(holder)
	s.must(<-closed)
	s.must(l.Close(s.ctx))
	s.unlock1(elsewhere)
	s.free(key, theirs)
}

func (s *suite) closeForced() {
	l := s.open()
	key := s.key("k")
	hanging, diligent := s.lock(l, key), s.lock(l, s.key("diligent"))
	go func() {
		<-diligent.Done()
		_ = diligent.Unlock(s.ctx)
	}()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Close that ended locks returned %v", err)
	}
	lost := (*pglock.LostError)(nil)
	if err := hanging.Err(); !errors.As(err, &lost) || lost.Reason != pglock.LostClosed {
		s.Errorf("a lock ended by Close: %v", err)
	}
	if err := hanging.Unlock(s.ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Unlock of a lock ended by Close: %v", err)
	}
	s.free(key, s.key("diligent"))
}

func (s *suite) misuse() {
	l := s.open()
	key := s.key("k")
	fail := func(what string, lock *pglock.Lock, err error) {
		s.Helper()
		if err == nil || lock != nil {
			s.Errorf("%s: no error", what)
		}
	}
	lock, err := l.Lock(s.ctx, pglock.Key{})
	fail("the zero Key", lock, err)
	if !errors.Is(err, pglock.ErrInvalidKey) {
		s.Errorf("the zero Key: %v", err)
	}
	lock, err = l.TryLock(s.ctx, pglock.NewKey(strings.Repeat("n", pglock.MaxName+1)))
	fail("a name that is too long", lock, err)
	if !errors.Is(err, pglock.ErrInvalidKey) {
		s.Errorf("a name that is too long: %v", err)
	}
	lock, err = l.LockAll(s.ctx, []pglock.Key{key, {}})
	fail("a zero Key among others", lock, err)
	lock, err = l.LockAll(s.ctx, nil)
	fail("no keys", lock, err)
	lock, err = l.TryLock(s.ctx, key, pglock.MaxWait(time.Second))
	fail("TryLock with MaxWait", lock, err)
	lock, err = l.TryLock(s.ctx, key, pglock.RetryUnavailable(time.Second))
	fail("TryLock with RetryUnavailable", lock, err)
	lock, err = l.Lock(s.ctx, key, pglock.RetryUnavailable(0))
	fail("RetryUnavailable(0)", lock, err)
	lock, err = l.Lock(s.ctx, key, pglock.MaxWait(-1))
	fail("a negative MaxWait", lock, err)
	lock, err = l.Lock(s.ctx, key, pglock.MaxHold(0))
	fail("MaxHold(0)", lock, err)
	lock, err = l.Lock(s.ctx, key, pglock.WithToken(""))
	fail("an empty token", lock, err)
	lock, err = l.Lock(s.ctx, key, nil)
	fail("a nil option", lock, err)
	fail("Do without a function", nil, l.Do(s.ctx, key, nil))
	fail("TryDo without a function", nil, l.TryDo(s.ctx, key, nil))
	s.free(key)
}
