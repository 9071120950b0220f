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
