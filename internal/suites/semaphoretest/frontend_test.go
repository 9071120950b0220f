package semaphoretest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// What the package does itself is the same on every backend, so it is tried in memory alone.
func TestWhatIsTheSameOnEveryBackend(t *testing.T) {
	server := locktest.NewServer()
	open := func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := server.Locker(opts...)
		must.Succeed(t, err)
		return l
	}
	exercise(t, open, nil, map[string]func(*suite){
		"AReleaseServesThisProcess":         (*suite).handoff,
		"CollectedSlotsAreGivenBack":        (*suite).collected,
		"TheLimitCanDiffer":                 (*suite).limits,
		"MaxWaitEndsTheWait":                (*suite).maxWait,
		"MaxHoldEndsThePermit":              (*suite).maxHold,
		"CloseFailsWaiters":                 (*suite).close,
		"WaitersOfAProcessAreServedInOrder": (*suite).order,
		"TheObserverSeesPermits":            (*suite).observer,
	})
}

func (s *suite) handoff() {
	l := s.opener(s.T, pglock.WithHandoffLimit(1000, time.Hour))
	sem, err := semaphore.New(l, s.key(), 2)
	s.Must(err)
	a, b := s.acquire(sem, 1), s.acquire(sem, 1)
	waiters := []*attempt{s.start(s.Ctx, sem, 1), s.start(s.Ctx, sem, 1)}
	s.waiting(sem, 2)
	before := l.Stats().HandedOff
	s.release(a)
	s.release(b)
	for _, w := range waiters {
		s.release(w.Got(s.Suite))
	}
	if n := l.Stats().HandedOff - before; n < 2 {
		s.Errorf("%d permits were passed on", n)
	}
	s.free(2)
}

func (s *suite) order() {
	l := s.opener(s.T)
	sem, err := semaphore.New(l, s.key(), 1)
	s.Must(err)
	first := s.acquire(sem, 1)
	var order []int
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			p, err := sem.Acquire(s.Ctx)
			if err != nil {
				s.Error(err)
				return
			}
			order = append(order, i) // guarded by the only permit
			if err := p.Release(s.Ctx); err != nil {
				s.Error(err)
			}
		})
		s.waiting(sem, i+1)
	}
	s.release(first)
	wg.Wait()
	if len(order) != n || !slices.IsSorted(order) {
		s.Errorf("the waiters were served in the order %v", order)
	}
}

func (s *suite) observer() {
	var w watcher
	sem := s.open(1, pglock.WithObserver(w.observer()))
	p := s.acquire(sem, 1)
	waiter := s.start(s.Ctx, sem, 1)
	s.waiting(sem, 1)
	s.release(p)
	s.release(waiter.Got(s.Suite))
	s.Until("every permit that was acquired has ended", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.ends >= 2 && w.ends == len(w.keys[pglock.UsePermit])
	})
	if w.count(hooks.UseSemaphoreGate) == 0 || w.count(pglock.UseLock) != 0 {
		s.Errorf("the Observer's events are %v", w.keys)
	}
}

func (s *suite) collected() {
	sem, other := s.open(3), s.open(3)
	one := s.acquire(sem, 1)
	for _, from := range []*semaphore.Semaphore{sem, other} {
		ctx, cancel := context.WithCancel(s.Ctx)
		heavy := s.start(ctx, from, 3)
		s.waiting(from, 1)
		cancel()
		heavy.Ended(s.Suite)
		if !errors.Is(heavy.Err, context.Canceled) || !errors.Is(heavy.Err, pglock.ErrNotAcquired) {
			s.Errorf("a cancelled AcquireN: %v", heavy.Err)
		}
		p, err := other.AcquireN(s.Ctx, 2) // the slots that it had collected
		s.Must(err)
		s.release(p)
	}
	s.release(one)
	s.free(3)
}

func (s *suite) limits() {
	small, large := s.open(2), s.open(5)
	all := s.acquire(large, 5)
	if _, err := small.TryAcquire(s.Ctx); !errors.Is(err, pglock.ErrNotAcquired) {
		s.Errorf("with all permits held: %v", err)
	}
	s.release(all)
	two := s.acquire(small, 2)
	three := s.acquire(large, 3)
	for _, sem := range []*semaphore.Semaphore{small, large} {
		if _, err := sem.TryAcquire(s.Ctx); !errors.Is(err, pglock.ErrNotAcquired) {
			s.Errorf("with all permits held: %v", err)
		}
	}
	s.release(two)
	s.release(three)
	lock, err := s.opener(s.T).TryLock(s.Ctx, s.key()) // the lock of that name is unrelated
	s.Must(err)
	s.release(s.acquire(small, 2))
	s.Must(lock.Unlock(s.Ctx))
}

func (s *suite) maxWait() {
	sem, other := s.open(1), s.open(1)
	p := s.acquire(sem, 1)
	for _, from := range []*semaphore.Semaphore{sem, other} {
		for _, d := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
			if wait := s.failedWait(from, d); wait != nil && d > 0 && (wait.Waited < d || len(wait.Holders) != 1) {
				s.Errorf("MaxWait(%v): %+v", d, wait)
			}
		}
	}
	s.release(p)
	s.free(1)
}

// failedWait waits for a permit for d and returns the error, or nil if the error is not the expected one. A wait that
// fails asks for the holders for a second at most. On a busy machine that may be too short; then failedWait waits
// again.
func (s *suite) failedWait(from *semaphore.Semaphore, d time.Duration) (wait *pglock.WaitError) {
	for range 20 {
		_, err := from.Acquire(s.Ctx, pglock.MaxWait(d))
		if !errors.As(err, &wait) || errors.Is(err, context.DeadlineExceeded) || !wait.Keys[0].Equal(s.key()) {
			s.Errorf("MaxWait(%v): %v", d, err)
			return nil
		}
		if d == 0 || len(wait.Holders) > 0 {
			break
		}
	}
	return wait
}

func (s *suite) maxHold() {
	sem, other := s.open(2), s.open(2)
	p := s.acquire(sem, 2, pglock.MaxHold(20*time.Millisecond))
	ctx := p.Context(s.Ctx)
	waiter := s.start(s.Ctx, other, 1)
	local := s.start(s.Ctx, sem, 1)
	<-ctx.Done()
	lost := (*pglock.LostError)(nil)
	if err := context.Cause(ctx); !errors.As(err, &lost) || lost.Reason != pglock.LostMaxHold {
		s.Errorf("the cause of the permit's context is %v", err)
	}
	if ctx.Err() == nil || p.Err() == nil {
		s.Errorf("the context has the error %v, the permit %v", ctx.Err(), p.Err())
	}
	for _, a := range []*attempt{waiter, local} { // although the holder has not released it
		s.release(a.Got(s.Suite))
	}
	if err := p.Release(s.Ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Release after MaxHold: %v", err)
	}
	s.free(2)
}

func (s *suite) close() {
	l := s.opener(s.T)
	sem, err := semaphore.New(l, s.key(), 1)
	s.Must(err)
	p := s.acquire(sem, 1)
	waiter := s.start(s.Ctx, sem, 1)
	s.waiting(sem, 1)
	closed := make(chan error, 1)
	go func() { closed <- l.Close(s.Ctx) }()
	waiter.Ended(s.Suite)
	if !errors.Is(waiter.Err, pglock.ErrClosed) {
		s.Errorf("a waiter of a closed Locker: %v", waiter.Err)
	}
	s.release(p)
	s.Must(<-closed)
	if _, err := sem.Acquire(s.Ctx); !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("Acquire after Close: %v", err)
	}
	s.free(1)
}
