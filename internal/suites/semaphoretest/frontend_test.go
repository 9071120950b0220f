package semaphoretest

import (
	"slices"
	"sync"
	"testing"

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
		"WaitersOfAProcessAreServedInOrder": (*suite).order,
		"TheObserverSeesPermits":            (*suite).observer,
	})
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
