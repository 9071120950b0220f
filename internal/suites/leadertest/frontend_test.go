package leadertest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
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
		"TheEndOfTheContextEndsRun":            (*suite).contextEnds,
		"AClosedLockerEndsRun":                 (*suite).closed,
		"ResignHandsOverWhenLeadHasReturned":   (*suite).resign,
		"ResignInsideLeadDoesNotWaitForItself": (*suite).resignInside,
		"ResignGivesUpWithItsContext":          (*suite).resignGivesUp,
		"AnErrorFromLeadLetsAnotherProcessTry": (*suite).errorYields,
		"APanicInLeadReleasesAndGoesOn":        (*suite).panics,
		"GoexitInLeadReleases":                 (*suite).goexit,
		"TheHealthCheckFindsALeaderThatGoesOn": (*suite).health,
		"EventsReportTermsInOrder":             (*suite).events,
	})
}

func (s *suite) resign() {
	var returned atomic.Bool
	goOn := make(chan struct{})
	first := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrResigned) && s.Ctx.Err() == nil && !returned.Load() {
			s.Errorf("the cause of a resigned leader's context is %v", cause)
		}
		<-goOn
		if err := lock.Verify(context.WithoutCancel(ctx)); err != nil && !returned.Load() {
			s.Errorf("the lock was gone before lead had returned: %v", err)
		}
		returned.Store(true)
		return nil
	}, patient)
	s.leading(first)
	second := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		if !returned.Load() {
			s.Error("the successor leads although lead has not returned")
		}
		return leads(ctx, lock)
	})
	s.waits(second)
	resigned := make(chan error, 1)
	go func() { resigned <- first.Resign(s.Ctx) }()
	s.Until("the first one has been asked to resign", func() bool { return !first.IsLeader() })
	select {
	case err := <-resigned:
		s.Fatalf("Resign returned %v before lead", err)
	case <-time.After(20 * time.Millisecond):
	}
	if second.IsLeader() {
		s.Error("there is a successor although lead has not returned")
	}
	close(goOn)
	s.Must(<-resigned)
	if !returned.Load() {
		s.Error("Resign returned before lead")
	}
	start := time.Now()
	s.leading(second)
	s.Logf("the successor led %v after Resign", time.Since(start))
	if first.IsLeader() || !second.IsLeader() {
		s.Errorf("they lead: %v and %v", first.IsLeader(), second.IsLeader())
	}
	s.Must(first.Resign(s.Ctx)) // it does not lead
	if holder, ok, err := first.Leader(s.Ctx); err != nil || !ok {
		s.Errorf("Leader says %+v, %v, %v", holder, ok, err)
	}
}

func (s *suite) resignInside() {
	terms := make(chan struct{}, 100)
	var c *candidate
	ready := make(chan struct{})
	c = s.run(func(ctx context.Context, lock *pglock.Lock) error {
		<-ready
		terms <- struct{}{}
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := c.Resign(child); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	close(ready)
	for range 3 { // and it campaigns again
		select {
		case <-terms:
		case <-s.Ctx.Done():
			s.Fatal("a leader that resigned does not campaign again")
		}
	}
	c.stop(nil)
	<-c.ended
	s.free()
}

func (s *suite) resignGivesUp() {
	goOn := make(chan struct{})
	c := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		<-goOn
		return nil
	})
	s.leading(c)
	ctx, cancel := context.WithTimeout(s.Ctx, 10*time.Millisecond)
	defer cancel()
	if err := c.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("Resign while lead does not return: %v", err)
	}
	close(goOn)
	s.Until("the term has ended", func() bool { return c.HealthCheck(0) == nil })
}

func (s *suite) errorYields() {
	mine := errors.New("mine")
	fail := make(chan struct{})
	failed := make(chan error, 100)
	first := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		select {
		case <-fail:
			return mine
		case <-ctx.Done():
			return nil
		}
	}, leader.WithEvents(func(event leader.Event) {
		if event.Type == leader.EventEnded {
			failed <- event.Err
		}
	}), patient)
	s.leading(first)
	second := s.run(leads)
	s.waits(second)
	close(fail)
	s.leading(second)
	if err := <-failed; err != mine {
		s.Errorf("the event has the error %v", err)
	}
}

func (s *suite) panics() {
	l := s.open(s.T)
	e := s.elector(l)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				s.Errorf("the panic came out as %v", r)
			}
		}()
		_ = e.Run(s.Ctx, func(context.Context, *pglock.Lock) error { panic("boom") })
	}()
	if e.IsLeader() {
		s.Error("it still leads")
	}
	s.free()
	// The elector can be used again.
	ctx, cancel := context.WithCancel(s.Ctx)
	_ = e.Run(ctx, func(context.Context, *pglock.Lock) error { cancel(); return nil })
	s.free()
}

func (s *suite) goexit() {
	e := s.elector(s.open(s.T))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = e.Run(s.Ctx, func(context.Context, *pglock.Lock) error { runtime.Goexit(); return nil })
	}()
	<-gone
	s.free()
}

func (s *suite) health() {
	goOn := make(chan struct{})
	c := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		<-goOn
		return nil
	})
	s.leading(c)
	s.Must(c.HealthCheck(0))
	c.stop(nil)
	s.Until("it is found", func() bool { return c.HealthCheck(10*time.Millisecond) != nil })
	s.Must(c.HealthCheck(time.Hour))
	if c.IsLeader() {
		s.Error("a leader whose context has ended says that it leads")
	}
	close(goOn)
	<-c.ended
	s.Must(c.HealthCheck(0))
	if err := c.HealthCheck(-1); err == nil {
		s.Error("a negative margin is accepted")
	}
}

func (s *suite) events() {
	events := make(chan leader.Event, 100)
	c := s.run(leads, leader.WithEvents(func(e leader.Event) { events <- e }))
	s.leading(c)
	s.Must(c.Resign(s.Ctx))
	s.leading(c)
	c.stop(nil)
	<-c.ended
	for i, want := range []leader.EventType{leader.EventElected, leader.EventEnded, leader.EventElected, leader.EventEnded} {
		event := <-events
		if event.Type != want {
			s.Errorf("event %d is %v, want %s", i, event, want)
		}
		if resigned := errors.Is(event.Err, leader.ErrResigned); resigned != (i == 1) {
			s.Errorf("event %d has the error %v", i, event.Err)
		}
	}
	if len(events) > 0 {
		s.Errorf("one more event: %v", <-events)
	}
}

func (s *suite) contextEnds() {
	mine := errors.New("mine")
	first := s.run(leads)
	s.leading(first)
	second := s.run(leads)
	s.waits(second)
	for _, c := range []*candidate{second, first} { // one candidate waits, and one leads
		c.stop(mine)
		if err := <-c.ended; err != mine {
			s.Errorf("Run returned %v", err)
		}
	}
	if first.IsLeader() || second.IsLeader() {
		s.Error("a stopped candidate leads")
	}
	if _, ok, err := first.Leader(s.Ctx); ok || err != nil {
		s.Errorf("there is a leader, %v", err)
	}
	s.free()
}

func (s *suite) closed() {
	c := s.run(leads)
	s.leading(c)
	ctx, cancel := context.WithTimeout(s.Ctx, 10*time.Millisecond)
	defer cancel()
	_ = c.locker.Close(ctx) // says that a lock was held
	if err := <-c.ended; !errors.Is(err, pglock.ErrClosed) {
		s.Errorf("Run on a closed Locker: %v", err)
	}
}

// free fails the test unless a separate process can lock the key at once.
func (s *suite) free() {
	s.Helper()
	l := s.open(s.T)
	lock, err := l.TryLock(s.Ctx, s.key())
	s.Must(err)
	s.Must(lock.Unlock(s.Ctx))
}
