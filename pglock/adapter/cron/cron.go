// Package cron runs jobs of robfig/cron once for each due time, in one of many processes that all have the same crontab:
//
//	job, err := schedule.New(locker, pglock.NewKey("nightly-report"))
//	…
//	c := cron.New(cron.WithLocation(time.UTC))
//	runs, err := pglockcron.New(c)
//	…
//	_, err = runs.Add("0 4 * * *", job, func(ctx context.Context, lock *pglock.Lock) error {
//		return report(ctx)
//	})
//	c.Start()
//
// A cron.JobWrapper is not told for which time a job is run, so this package wraps the Schedule: the due time is the
// schedule's, not the time at which the job began. Clocks may differ by some seconds.
//
// Let the crontab be in UTC, as above, or begin specs with CRON_TZ=UTC. In a time zone with daylight saving time a spec
// such as "30 1 * * *" is due twice on the day on which clocks go back, and "30 2 * * *" is not due on the day on which
// they go forward; and processes in different time zones have different due times, so each of them runs the job.
package cron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// Cron adds jobs of package schedule to a [cron.Cron].
type Cron struct {
	cron    *cron.Cron
	ctx     context.Context
	parser  cron.ScheduleParser
	onError func(job pglock.Key, due time.Time, err error)
}

// Option configures a [Cron].
type Option func(*Cron) error

// WithContext sets the parent of the contexts of all runs. The default never ends.
func WithContext(ctx context.Context) Option {
	return func(c *Cron) error {
		if ctx == nil {
			return errors.New("the context is nil")
		}
		c.ctx = ctx
		return nil
	}
}

// WithParser sets the parser for the specs of [Cron.Add]. The default reads five fields and descriptors such as
// @hourly, as cron.New does. If the [cron.Cron] has another parser, such as one with seconds, pass that.
func WithParser(p cron.ScheduleParser) Option {
	return func(c *Cron) error {
		if p == nil {
			return errors.New("the parser is nil")
		}
		c.parser = p
		return nil
	}
}

// OnError calls f with the error of each run that fails, except for [pglock.ErrDone]. robfig/cron has no place
// for such errors: by default they are dropped, although an Observer of the Locker sees them.
func OnError(f func(job pglock.Key, due time.Time, err error)) Option {
	return func(c *Cron) error {
		c.onError = f
		return nil
	}
}

// New returns a Cron that adds jobs to c.
func New(c *cron.Cron, opts ...Option) (*Cron, error) {
	if c == nil {
		return nil, errors.New("pglock/adapter/cron: the Cron is nil")
	}
	result := &Cron{
		cron: c, ctx: context.Background(),
		parser: cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor),
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("pglock/adapter/cron: an Option is nil")
		}
		if err := opt(result); err != nil {
			return nil, fmt.Errorf("pglock/adapter/cron: %w", err)
		}
	}
	return result, nil
}

// Add adds fn as job, due when spec says. An "@every" is counted from 1970, not from the start of this process, since
// processes start at different times. Options are those of [schedule.Job.Run].
func (c *Cron) Add(
	spec string, job *schedule.Job, fn func(ctx context.Context, lock *pglock.Lock) error, opts ...pglock.LockOption,
) (cron.EntryID, error) {
	if job == nil {
		return 0, errors.New("pglock/adapter/cron: the Job is nil")
	}
	s, err := c.parser.Parse(spec)
	if err != nil {
		return 0, fmt.Errorf("pglock/adapter/cron: job %q: %w", job.Key(), err)
	}
	return c.Schedule(s, job, fn, opts...)
}

// Schedule is [Cron.Add] for the caller's own schedule, which must give every process the same times.
func (c *Cron) Schedule(
	s cron.Schedule, job *schedule.Job, fn func(ctx context.Context, lock *pglock.Lock) error, opts ...pglock.LockOption,
) (cron.EntryID, error) {
	if s == nil || job == nil || fn == nil {
		return 0, errors.New("pglock/adapter/cron: the schedule, the Job or the function is nil")
	}
	if constant, ok := s.(cron.ConstantDelaySchedule); ok {
		aligned, err := schedule.Every(constant.Delay)
		if err != nil {
			return 0, fmt.Errorf("pglock/adapter/cron: job %q: %w", job.Key(), err)
		}
		s = aligned
	}
	dues := &dues{schedule: s}
	return c.cron.Schedule(dues, cron.FuncJob(func() {
		due, ok := dues.take(time.Now())
		if !ok {
			return // an earlier run has taken this time
		}
		err := job.Run(c.ctx, due, fn, opts...)
		if err != nil && !errors.Is(err, pglock.ErrDone) && c.onError != nil {
			c.onError(job.Key(), due, err)
		}
	})), nil
}

// dues is a schedule that remembers the times it returned. Cron asks it for the next time, sleeps until then, starts
// the job in a goroutine, and asks again. So when the job begins, there may be newer times than its own.
type dues struct {
	schedule cron.Schedule

	mu   sync.Mutex
	said []time.Time
}

// Next implements [cron.Schedule].
func (d *dues) Next(t time.Time) time.Time {
	next := d.schedule.Next(t)
	if !next.IsZero() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.said = append(d.said, next)
	}
	return next
}

// take returns the newest time that has come, and forgets the older ones.
func (d *dues) take(now time.Time) (due time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []time.Time
	for _, t := range d.said {
		switch {
		case t.After(now):
			left = append(left, t)
		case !ok || t.After(due):
			due, ok = t, true
		}
	}
	d.said = left
	return due, ok
}
