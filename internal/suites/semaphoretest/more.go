package semaphoretest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// watcher records the keys of a Locker's locks by their use.
type watcher struct {
	mu   sync.Mutex
	keys map[pglock.UseKind][]pglock.Key
	ends int
}

func (w *watcher) observer() pglock.Observer {
	w.keys = map[pglock.UseKind][]pglock.Key{}
	return func(ctx context.Context, e pglock.Event) context.Context {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case e.Type == pglock.EventAcquired:
			w.keys[e.Use.Kind] = append(w.keys[e.Use.Kind], e.Keys...)
		case e.Type != pglock.EventReleased && e.Type != pglock.EventLost:
		case e.Use.Kind == pglock.UsePermit:
			w.ends++
		}
		return ctx
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
