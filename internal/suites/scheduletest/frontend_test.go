package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// What the package does itself is the same on every backend, so it is tried in memory alone.
func TestWhatIsTheSameOnEveryBackend(t *testing.T) {
	server := locktest.NewServer()
	open := func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		l, err := server.Locker(opts...)
		must.Succeed(t, err)
		return l
	}
	exercise(t, open, map[string]func(*suite){
		"APanicGoesOn":                       (*suite).panics,
		"MaxHoldEndsTheRun":                  (*suite).maxHold,
		"AnEndlessCatchUpEndsWithItsContext": (*suite).catchUpEndless,
		"TheObserverLearnsOfIt":              (*suite).observer,
	})
}

func (s *suite) maxHold() {
	for _, mark := range []schedule.Mark{schedule.MarkStart, schedule.MarkSuccess} {
		job := fmt.Sprint(s.job(), mark)
		hang := func(ctx context.Context, lock *pglock.Lock) error {
			if err := lock.Extend(20 * time.Millisecond); err != nil { // now that it has begun
				return err
			}
			<-ctx.Done()
			return nil
		}
		jobs := s.jobs(schedule.WithMark(mark))
		hanging, err := jobs.Job(job)
		s.Must(err)
		s.is(hanging.Run(s.Ctx, day, hang, pglock.MaxHold(time.Minute)), pglock.ErrLost)
		var n atomic.Int64
		err = jobs.Run(s.Ctx, job, day, count(&n, nil))
		if mark == schedule.MarkStart {
			s.is(err, pglock.ErrDone)
		} else { // it has returned nil, but not under the lock
			s.Must(err)
			s.want(&n, 1)
		}
	}
}

// endless is a schedule with more due times than can be followed.
type endless struct{}

// Next implements [schedule.Schedule].
func (endless) Next(t time.Time) time.Time { return t.Add(time.Nanosecond) }

func (s *suite) catchUpEndless() {
	s.Must(s.jobs().Run(s.Ctx, s.job(), day, count(new(atomic.Int64), nil)))
	ctx, cancel := context.WithTimeout(s.Ctx, 10*time.Millisecond)
	defer cancel()
	s.is(s.jobs(schedule.WithCatchUp(1, endless{})).Run(ctx, s.job(), day.Add(time.Hour), count(new(atomic.Int64), nil)), context.DeadlineExceeded)
}

func (s *suite) panics() {
	jobs := s.jobs(schedule.WithMark(schedule.MarkSuccess))
	func() {
		defer func() {
			if recover() != "boom" {
				s.Error("the panic did not continue")
			}
		}()
		_ = jobs.Run(s.Ctx, s.job(), day, func(context.Context, *pglock.Lock) error { panic("boom") })
	}()
	var n atomic.Int64
	s.Must(s.jobs().Run(s.Ctx, s.job(), day, count(&n, nil))) // the lock is free
	s.want(&n, 1)
	var errs []error
	l := s.opener(s, pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		if e.Type == pglock.EventRecorded {
			errs = append(errs, e.Err)
		}
	}))
	watched := &Jobs{Locker: l}
	func() {
		defer func() { _ = recover() }() // as above
		_ = watched.Run(s.Ctx, s.job(), day.Add(time.Hour), func(context.Context, *pglock.Lock) error { panic("boom") })
	}()
	if len(errs) != 1 || errs[0] == nil {
		s.Errorf("the observer got the errors %v for a run that panicked", errs)
	}
}

func (s *suite) observer() {
	var mu sync.Mutex
	var seen []pglock.Event
	l := s.opener(s, pglock.WithObserver(func(_ context.Context, e pglock.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == pglock.EventRecorded {
			seen = append(seen, e)
		}
	}))
	jobs := &Jobs{Locker: l}
	boom := errors.New("boom")
	var n atomic.Int64
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, boom)), boom)
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)), pglock.ErrDone)
	if len(seen) != 2 || !seen[0].Ran || seen[1].Ran || !errors.Is(seen[0].Err, boom) ||
		!errors.Is(seen[1].Err, pglock.ErrDone) || seen[0].Use.Kind != pglock.UseTick || !seen[0].Due.Equal(day) {
		s.Errorf("the observer got %+v", seen)
	}
}
