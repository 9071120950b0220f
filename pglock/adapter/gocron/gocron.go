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

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// New returns a Locker for gocron.WithDistributedLocker, or, for one job, gocron.WithDistributedJobLocker. It is for
// jobs that are scheduled at the given interval, and lets each of them run once per interval of the server's clock.
// Intervals are centred on the multiples of interval since 1970, so that runs that are due at a multiple count for the
// same interval in all processes, although their schedulers are not in step. A run counts when it begins. The job's
// name is the lock's, so give jobs names (gocron.WithName). An interval below a second is an error.
func New(l *pglock.Locker, interval time.Duration) (gocron.Locker, error) {
	if interval < time.Second {
		return nil, fmt.Errorf("pglock/adapter/gocron: the interval is %v, and must be at least a second", interval)
	}
	return newLocker(l, interval)
}

// NewOverlap returns a Locker that only prevents runs of a job from overlapping. It needs no records, so it works on
// Redlock, and without schema pglock.
func NewOverlap(l *pglock.Locker) (gocron.Locker, error) { return newLocker(l, 0) }

func newLocker(l *pglock.Locker, interval time.Duration) (gocron.Locker, error) {
	if l == nil {
		return nil, errors.New("pglock/adapter/gocron: the Locker is nil")
	}
	return locker{l, interval}, nil
}

const keepAtLeast = 24 * time.Hour

// locker implements [gocron.Locker].
type locker struct {
	locker   *pglock.Locker
	interval time.Duration
}

// Lock takes the lock, unless another run of the job is in progress or this interval's run has taken place.
func (l locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	job, err := schedule.New(l.locker, pglock.NewKey(name), schedule.Keep(keepAtLeast))
	if err != nil {
		return nil, fmt.Errorf("pglock/adapter/gocron: %w", err)
	}
	begun, err := job.Begin(ctx, l.interval)
	if err != nil {
		return nil, err
	}
	return run{begun}, nil
}

// run is a run of a job.
type run struct{ begun *schedule.Begun }

// Unlock implements [gocron.Lock].
func (r run) Unlock(ctx context.Context) error { return r.begun.End(ctx) }

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
