// Package gocron lets the schedulers of gocron v2 in many processes share their jobs.
//
// gocron asks a Locker before each run, and passes only the job's name, not the time for which the job is run. [New]
// therefore takes the interval at which the jobs run, and counts one run for each interval of the server's clock,
// whichever process is first and however short the job is. Without an interval, see [NewOverlap], a lock only prevents
// two runs from overlapping, and a job that is shorter than the difference between two processes' clocks runs in both.
//
// Let the scheduler be in UTC (gocron.WithLocation): intervals are those of UTC, in which a day has 24 hours.
//
// For cron expressions prefer pglock/adapter/cron, where the due time is known.
package gocron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/mark"
)

// New returns a Locker for gocron.WithDistributedLocker, or, for one job, gocron.WithDistributedJobLocker. It is for
// jobs that are scheduled at the given interval, and lets each of them run once per interval of the server's clock.
// Intervals are centred on the multiples of interval since 1970, so that runs that are due at a multiple count for the
// same interval in all processes, although their schedulers are not in step. A run counts when it begins. The job's
// name is the lock's, so give jobs names (gocron.WithName). An interval below a second is an error.
func New(l *pglock.Locker, interval time.Duration) (gocron.Locker, error) {
	if l == nil {
		return nil, errors.New("pglock/adapter/gocron: the Locker is nil")
	}
	if interval < time.Second {
		return nil, fmt.Errorf("pglock/adapter/gocron: the interval is %v, and must be at least a second", interval)
	}
	return &locker{l, interval.Truncate(time.Microsecond)}, nil
}

// NewOverlap returns a Locker that only prevents runs of a job from overlapping. It needs no records, so it works on
// Redlock, and without schema pglock.
func NewOverlap(l *pglock.Locker) (gocron.Locker, error) {
	if l == nil {
		return nil, errors.New("pglock/adapter/gocron: the Locker is nil")
	}
	return &locker{l, 0}, nil
}

// locker implements [gocron.Locker].
type locker struct {
	locker   *pglock.Locker
	interval time.Duration
}

// Lock takes the lock, unless another run of the job is in progress or this interval's run has taken place.
func (l *locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	key := pglock.NewKey(name)
	lock, err := l.locker.TryLock(ctx, key, mark.Use(pglock.UseTick, key))
	if err != nil {
		return nil, err
	}
	if l.interval > 0 {
		if err := l.count(ctx, name); err != nil {
			return nil, errors.Join(err, lock.Unlock(ctx))
		}
	}
	return run{lock, mark.Take(ctx, l.locker, lockkeys.TickMark, pglock.UseTickMark, key)}, nil
}

// run is a run of a job, with the mark by which the monitor recognizes it.
type run struct {
	lock *pglock.Lock
	mark mark.Mark
}

// Unlock implements [gocron.Lock].
func (r run) Unlock(ctx context.Context) error {
	defer r.mark.Unlock(ctx)
	return r.lock.Unlock(ctx)
}

// count records a run for the interval that the server's clock is in. Intervals are centred on their multiples, since
// runs are due there.
func (l *locker) count(ctx context.Context, name string) error {
	r := driver.TickRequest{Job: name, Due: time.Unix(0, 0).UTC(), Step: driver.TickLook}
	now, err := l.locker.Tick(ctx, r)
	if err != nil {
		return fmt.Errorf("pglock/adapter/gocron: job %q: %w", name, err)
	}
	step := l.interval.Microseconds()
	begin := now.At.UnixMicro() - (now.At.UnixMicro()+step/2)%step
	r.Due, r.Step, r.Keep = time.UnixMicro(begin).UTC(), driver.TickStart, max(keepAtLeast, 2*l.interval)
	state, err := l.locker.Tick(ctx, r)
	switch {
	case err != nil:
		return fmt.Errorf("pglock/adapter/gocron: job %q: %w", name, err)
	case state.Done:
		return fmt.Errorf("pglock/adapter/gocron: job %q has been run in the interval since %s",
			name, r.Due.Format(time.RFC3339))
	}
	return nil
}

const keepAtLeast = 24 * time.Hour

// NewElector returns an Elector for gocron.WithDistributedElector from a function that reports whether this process
// leads, such as the IsLeader method of an Elector of package leader. That process alone runs jobs; while leadership
// moves a job may run in both, or in none.
func NewElector(isLeader func() bool) (gocron.Elector, error) {
	if isLeader == nil {
		return nil, errors.New("pglock/adapter/gocron: the function is nil")
	}
	return elector(isLeader), nil
}

type elector func() bool

// ErrNotLeader says that another process leads.
var ErrNotLeader = errors.New("pglock/adapter/gocron: another process leads")

// IsLeader implements [gocron.Elector].
func (e elector) IsLeader(context.Context) error {
	if !e() {
		return ErrNotLeader
	}
	return nil
}
