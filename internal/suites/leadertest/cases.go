package leadertest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

// patient makes a candidate leave the next term to another one.
var patient = leader.WithBackoff(time.Hour, time.Hour)

// oneLeads: leaders write without atomics, so that the race detector finds an overlap.
func (s *suite) oneLeads() {
	const candidates, terms = 4, 40
	var inside atomic.Int32
	total := 0
	done := make(chan struct{})
	led := make([]atomic.Int32, candidates)
	for i := range candidates {
		s.run(func(ctx context.Context, lock *pglock.Lock) error {
			if n := inside.Add(1); n != 1 {
				s.Errorf("%d leaders work at the same time", n)
			}
			defer inside.Add(-1)
			if ctx.Err() != nil || lock.Err() != nil {
				return nil // the test is over
			}
			led[i].Add(1)
			total++
			if total == terms {
				close(done)
			}
			runtime.Gosched()
			return nil
		})
	}
	select {
	case <-done:
	case <-s.Ctx.Done():
		s.Fatal("there were not enough terms")
	}
	s.Until("every process has led", func() bool {
		for i := range led {
			if led[i].Load() == 0 {
				return false
			}
		}
		return true
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

func (s *suite) lost() {
	if s.lose == nil {
		s.Log("this backend cannot lose a lock at will")
		return
	}
	causes := make(chan error, 100)
	first := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}, patient)
	s.leading(first)
	var terms atomic.Int32
	second := s.run(func(ctx context.Context, lock *pglock.Lock) error {
		terms.Add(1)
		return leads(ctx, lock)
	})
	s.waits(second)
	s.lose(s.T, s.key())
	if err := <-causes; !errors.Is(err, pglock.ErrLost) {
		s.Errorf("the cause of a lost leader's context is %v", err)
	}
	s.leading(second)
	s.lose(s.T, s.key())
	s.Until("it leads again", func() bool { return terms.Load() == 2 }) // it kept campaigning
}
