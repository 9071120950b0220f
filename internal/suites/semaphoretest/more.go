package semaphoretest

import (
	"context"
	"errors"
	"sync"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
)

// watcher records the keys of a Locker's locks by their use.
type watcher struct {
	mu   sync.Mutex
	keys map[pglock.UseKind][]pglock.Key
	ends int
}

func (w *watcher) observer() pglock.Observer {
	w.keys = map[pglock.UseKind][]pglock.Key{}
	return func(_ context.Context, e pglock.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case e.Type == pglock.EventAcquired:
			w.keys[e.Use.Kind] = append(w.keys[e.Use.Kind], e.Keys...)
		case e.Type != pglock.EventReleased && e.Type != pglock.EventLost:
		case e.Use.Kind == pglock.UsePermit:
			w.ends++
		}
	}
}

// last returns the key of the last lock of a kind.
func (w *watcher) last(kind pglock.UseKind) pglock.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.keys[kind]); n > 0 {
		return w.keys[kind][n-1]
	}
	return pglock.Key{}
}

func (w *watcher) count(kind pglock.UseKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys[kind])
}

func (s *suite) lost() {
	if s.lose == nil {
		s.Log("this backend cannot lose a lock at will")
		return
	}
	var w watcher
	sem, other := s.open(1, pglock.WithObserver(w.observer())), s.open(1)
	p := s.acquire(sem, 1)
	ctx := p.Context(s.Ctx)
	waiter := s.start(s.Ctx, other, 1)
	s.lose(s.T, w.last(pglock.UsePermit))
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), pglock.ErrLost) {
		s.Errorf("the cause of a lost permit's context is %v", context.Cause(ctx))
	}
	next := waiter.Got(s.Suite)
	if err := p.Release(s.Ctx); !errors.Is(err, pglock.ErrLost) {
		s.Errorf("Release of a lost permit: %v", err)
	}
	s.release(next)
	s.release(s.acquire(sem, 1)) // the slot can be acquired again
}

// lostGate: a keeper that loses the gate takes it again, and meanwhile no permit is granted twice.
func (s *suite) lostGate() {
	if s.lose == nil {
		s.Log("this backend cannot lose a lock at will")
		return
	}
	var w watcher
	sem, other := s.open(2, pglock.WithObserver(w.observer())), s.open(2)
	one := s.acquire(other, 1)
	heavy := s.start(s.Ctx, sem, 2)
	s.Until("it waits at the gate", func() bool { return w.count(hooks.UseSemaphoreGate) > 0 })
	s.waiting(sem, 1)
	s.lose(s.T, w.last(hooks.UseSemaphoreGate))
	s.Until("it has taken the gate again", func() bool { return w.count(hooks.UseSemaphoreGate) > 1 })
	s.release(one)
	if p := heavy.Got(s.Suite); p.Err() == nil { // on some backends the slot was lost with the gate
		s.release(p)
	}
	s.release(s.acquire(other, 2))
}
