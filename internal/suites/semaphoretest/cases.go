package semaphoretest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func (s *suite) permit() {
	sem, other := s.open(2), s.open(2)
	first, second := s.acquire(sem, 1), s.acquire(other, 1)
	s.Must(first.Err())
	for _, from := range []*semaphore.Semaphore{sem, other} {
		if _, err := from.TryAcquire(s.Ctx); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("a third TryAcquire: %v", err)
		}
	}
	ctx := first.Context(s.Ctx)
	s.release(first)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), pglock.ErrUnlocked) || !errors.Is(first.Err(), pglock.ErrUnlocked) {
		s.Errorf("after Release the cause is %v, Err is %v", context.Cause(ctx), first.Err())
	}
	third := s.acquire(other, 1)
	for range 3 { // a second Release does not free another holder's permit
		if err := first.Release(s.Ctx); !errors.Is(err, pglock.ErrUnlocked) {
			s.Errorf("a second Release: %v", err)
		}
	}
	if _, err := sem.TryAcquire(s.Ctx); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("a TryAcquire after a double Release: %v", err)
	}
	s.release(second)
	s.release(third)
	s.free(2)
}

// limit: there are never more holders than the limit, and at times exactly as many. Callers that want several permits
// cannot deadlock, although each collects them one by one. A third of the calls may be cancelled at any moment, so also while
// a permit is granted.
func (s *suite) limit() {
	const limit, processes, workers, rounds = 3, 3, 4, 30
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range processes {
		sem := s.open(limit)
		for range workers {
			wg.Go(func() {
				for round := range rounds {
					ctx, cancel := s.Ctx, func() {}
					if round%3 == 0 {
						ctx, cancel = context.WithTimeout(s.Ctx, rand.N(3*time.Millisecond))
					}
					weight := 1 + rand.IntN(2)
					p, err := sem.AcquireN(ctx, weight)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						continue
					}
					if err != nil {
						s.Error(err)
						return
					}
					n := inside.Add(int32(weight))
					if n > limit {
						s.Errorf("%d permits are held", n)
					}
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(rand.N(time.Millisecond))
					inside.Add(int32(-weight))
					if err := p.Release(s.Ctx); err != nil {
						s.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if most.Load() != limit {
		s.Errorf("at most %d of %d permits were held together", most.Load(), limit)
	}
	p := s.acquire(s.open(limit), limit) // the keepers may be at the gate for a moment
	s.release(p)
	s.free(limit)
}

// fair: while many goroutines of one process pass permits around, another process gets them too.
func (s *suite) fair() {
	hot, other := s.open(2), s.open(2)
	ctx, stop := context.WithCancel(s.Ctx)
	var wg sync.WaitGroup
	var rounds atomic.Int32
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := hot.Do(ctx, func(context.Context, *semaphore.Permit) error {
					rounds.Add(1)
					runtime.Gosched()
					return nil
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					s.Error(err)
					return
				}
			}
		})
	}
	s.Until("the loop is running", func() bool { return rounds.Load() > 100 })
	for range 5 {
		s.release(s.acquire(other, 1))
		s.release(s.acquire(other, 2))
	}
	stop()
	wg.Wait()
	s.free(2)
}

func (s *suite) tryBehind() {
	sem, other := s.open(2), s.open(2)
	one := s.acquire(sem, 1)
	waiter := s.start(s.Ctx, other, 2) // one slot is left, which it may collect
	s.waiting(other, 1)
	s.Until("the waiter's process is at the gate", func() bool {
		p, err := sem.TryAcquire(s.Ctx)
		if err == nil {
			s.release(p)
		}
		return errors.Is(err, pglock.ErrNotAcquired)
	})
	for _, from := range []*semaphore.Semaphore{sem, other} {
		if _, err := from.TryAcquire(s.Ctx); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("TryAcquire past a waiter: %v", err)
		}
		if _, err := from.Acquire(s.Ctx, pglock.MaxWait(0)); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("Acquire with MaxWait(0) past a waiter: %v", err)
		}
	}
	s.release(one)
	s.release(waiter.Got(s.Suite))
	s.free(2)
}
