// Package scheduletest provides the suite that package schedule passes on every backend that can record
// runs.
package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/suitetest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// Exercise runs the suite. Each Locker that open returns represents a process; all must be on one server, on which
// no other program uses jobs whose names begin with the test's.
func Exercise(t *testing.T, open locktest.Opener) {
	exercise(t, open, map[string]func(*suite){
		"ADueTimeIsRunOnce":                         (*suite).once,
		"ProcessesShareTheRuns":                     (*suite).processes,
		"MarkOnStartCountsFailures":                 (*suite).start,
		"MarkOnSuccessRepeatsFailures":              (*suite).success,
		"ADueTimeAheadOfTheServersClockIsWaitedFor": (*suite).ahead,
		"RunsOfAJobDoNotOverlap":                    (*suite).overlap,
		"WhatWasForgottenIsNotRepeated":             (*suite).keep,
		"CatchUpRunsWhatWasMissed":                  (*suite).catchUp,
	})
}

func exercise(t *testing.T, open locktest.Opener, cases map[string]func(*suite)) {
	suitetest.Run(t, time.Minute, func(s *suitetest.Suite) *suite { return &suite{s, open} }, cases)
}

// day is a due time in the past whose record is kept, and the basis of others.
var day = time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Hour)

type suite struct {
	*suitetest.Suite
	opener locktest.Opener
}

func (s *suite) jobs(opts ...schedule.Option) *Jobs { return &Jobs{s.opener(s), opts} }

func (s *suite) job() string { return s.Name() }

func (s *suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("the error is %v, want one that is %v", err, want)
	}
}

// count returns a job that counts its runs, and returns the error that fail returns.
func count(n *atomic.Int64, fail error) func(context.Context, *pglock.Lock) error {
	return func(context.Context, *pglock.Lock) error {
		n.Add(1)
		return fail
	}
}

func (s *suite) want(n *atomic.Int64, want int64) {
	s.Helper()
	if n.Load() != want {
		s.Errorf("it ran %d times, want %d", n.Load(), want)
	}
}

func (s *suite) once() {
	var n atomic.Int64
	jobs := s.jobs()
	s.Must(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)))
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)), pglock.ErrDone)
	s.is(s.jobs().Run(s.Ctx, s.job(), day, count(&n, nil)), pglock.ErrDone) // another process
	elsewhere := day.In(time.FixedZone("elsewhere", 3600)).Add(999 * time.Nanosecond)
	s.is(jobs.Run(s.Ctx, s.job(), elsewhere, count(&n, nil)), pglock.ErrDone) // the same instant
	s.want(&n, 1)
	s.Must(jobs.Run(s.Ctx, s.job(), day.Add(time.Microsecond), count(&n, nil)))
	s.Must(jobs.Run(s.Ctx, s.job(), day.Add(-time.Hour), count(&n, nil))) // late, and not done yet
	s.Must(jobs.Run(s.Ctx, s.job()+"}other{", day, count(&n, nil)))
	s.want(&n, 4)
}

func (s *suite) processes() {
	const processes, ticks = 5, 20
	var n atomic.Int64
	var wg sync.WaitGroup
	for range processes {
		jobs := s.jobs()
		wg.Go(func() {
			for i := range ticks {
				err := jobs.Run(s.Ctx, s.job(), day.Add(time.Duration(i)*time.Second), count(&n, nil))
				if err != nil && !errors.Is(err, pglock.ErrDone) {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.want(&n, ticks)
}

func (s *suite) start() {
	var n atomic.Int64
	boom := errors.New("boom")
	jobs := s.jobs()
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, boom)), boom)
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)), pglock.ErrDone)
	s.want(&n, 1)
}

func (s *suite) success() {
	var n atomic.Int64
	boom := errors.New("boom")
	jobs := s.jobs(schedule.WithMark(schedule.MarkSuccess))
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, boom)), boom)
	s.Must(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)))
	s.is(jobs.Run(s.Ctx, s.job(), day, count(&n, nil)), pglock.ErrDone)
	s.want(&n, 2)
}

func (s *suite) ahead() {
	var n atomic.Int64
	jobs := s.jobs()
	start := time.Now() // the server is on this machine
	s.Must(jobs.Run(s.Ctx, s.job(), start.Add(300*time.Millisecond), count(&n, nil)))
	if early := 300*time.Millisecond - time.Since(start); early > 5*time.Millisecond {
		s.Errorf("it ran %v too early", early)
	}
	ctx, cancel := context.WithTimeout(s.Ctx, 20*time.Millisecond)
	defer cancel()
	s.is(jobs.Run(ctx, s.job(), time.Now().Add(time.Hour), count(&n, nil)), context.DeadlineExceeded)
	s.want(&n, 1)
}

func (s *suite) overlap() {
	var n atomic.Int64
	begun, end := make(chan struct{}), make(chan struct{})
	job := s.job() + "/long"
	done := make(chan error, 1)
	jobs := s.jobs()
	go func() {
		done <- jobs.Run(s.Ctx, job, day, func(context.Context, *pglock.Lock) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	other := s.jobs()
	s.is(other.Run(s.Ctx, job, day, count(&n, nil)), pglock.ErrDone) // it has started
	for _, wait := range []time.Duration{0, time.Millisecond} {
		long, err := other.Job(job)
		s.Must(err)
		err = long.Run(s.Ctx, day.Add(time.Hour), count(&n, nil), pglock.MaxWait(wait))
		if s.is(err, pglock.ErrNotAcquired); errors.Is(err, pglock.ErrDone) {
			s.Error(err)
		}
	}
	close(end)
	s.Must(<-done)
	s.Must(other.Run(s.Ctx, job, day.Add(time.Hour), count(&n, nil)))
}

func (s *suite) keep() {
	var n atomic.Int64
	jobs := s.jobs(schedule.WithKeep(time.Hour))
	old := time.Now().Add(-5 * time.Hour)
	for i := range 3 {
		s.Must(jobs.Run(s.Ctx, s.job(), old.Add(time.Duration(i)*time.Hour), count(&n, nil)))
	}
	s.Must(jobs.Run(s.Ctx, s.job(), old.Add(270*time.Minute), count(&n, nil))) // half an hour old
	// The first three records are deleted by now. The newest of them stays the bound.
	for i := -1; i < 3; i++ {
		s.is(jobs.Run(s.Ctx, s.job(), old.Add(time.Duration(i)*time.Hour), count(&n, nil)), pglock.ErrDone)
	}
	s.want(&n, 4)
	s.Must(jobs.Run(s.Ctx, s.job(), old.Add(121*time.Minute), count(&n, nil))) // newer than the bound
	s.want(&n, 5)
}

func (s *suite) catchUp() {
	hourly, err := schedule.Every(time.Hour)
	s.Must(err)
	jobs := s.jobs(schedule.WithCatchUp(3, hourly))
	var ran []string
	run := func(hour int, fail error) error {
		due := day.Add(time.Duration(hour) * time.Hour)
		return jobs.Run(s.Ctx, s.job(), due, func(context.Context, *pglock.Lock) error { return fail })
	}
	observed := func(hour int) []string {
		s.Helper()
		ran = nil
		with := s.jobs(schedule.WithCatchUp(3, hourly))
		s.Must(with.Run(s.Ctx, s.job(), day.Add(time.Duration(hour)*time.Hour), func(ctx context.Context, _ *pglock.Lock) error {
			due, ok := schedule.Due(ctx)
			if !ok {
				s.Error("a run does not get its due time")
			}
			ran = append(ran, fmt.Sprint(due.Sub(day).Hours()))
			return nil
		}))
		return ran
	}
	want := func(got []string, want ...string) {
		s.Helper()
		if !slices.Equal(got, want) {
			s.Errorf("it ran for the hours %v, want %v", got, want)
		}
	}
	s.Must(run(0, nil)) // nothing was missed before the first
	want(observed(1), "1")
	want(observed(3), "2", "3")
	want(observed(10), "7", "8", "9", "10") // no more than three
	want(observed(11), "11")
	boom := errors.New("boom")
	s.is(run(13, boom), boom) // so does the one before it
	want(observed(14), "14")  // with MarkOn(Start) they count as done
	if _, ok := schedule.Due(s.Ctx); ok {
		s.Error("a context of no run has a due time")
	}
}
