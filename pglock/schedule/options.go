package schedule

import (
	"errors"
	"fmt"
	"time"
)

// Option configures a [Job].
type Option func(*config) error

// Mark says what makes a run count as done.
type Mark int

const (
	// Start: a run counts once it has begun. There is at most one for each due time. If the answer to the record of the
	// start is lost, the run counts but does not begin, and the error matches [pglock.ErrUnavailable].
	Start Mark = iota + 1
	// Success: a run counts once its function has returned nil while the lock was held. Until then it may
	// begin again.
	Success
)

type config struct {
	mark     Mark
	marked   bool // MarkOn was given
	atLeast  time.Duration
	keep     time.Duration
	catchUp  int
	schedule Schedule
}

const (
	defaultKeep = 30 * 24 * time.Hour
	maxKeep     = 100 * 365 * 24 * time.Hour
)

// MarkOn sets what makes a run count as done, so that it is not repeated: [Start], the default, or
// [Success].
func MarkOn(m Mark) Option {
	return func(c *config) error {
		if m != Start && m != Success {
			return fmt.Errorf("MarkOn(%d): it must be Start or Success", m)
		}
		c.mark, c.marked = m, true
		return nil
	}
}

// AtLeast makes [Job.Run] wait, and keep the job's lock, until at least d after the start of the run, unless the run
// fails or ctx ends. It is useful only if something other than this package takes the lock too: a recorded run is not
// repeated, however short it was. A d that is not positive is an error.
func AtLeast(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("AtLeast(%v): the duration is not positive", d)
		}
		c.atLeast = d
		return nil
	}
}

// Keep sets how long runs stay recorded: when a run is recorded, the job's records that were due longer ago are
// deleted. All runs up to the newest deleted one count as done for ever, so none is repeated, whatever Keep is. The
// default is 30 days. Less than a second, or more than 100 years, is an error.
func Keep(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Second || d > maxKeep {
			return fmt.Errorf("Keep(%v): it must be between a second and %v", d, maxKeep)
		}
		c.keep = d
		return nil
	}
}

// CatchUp runs the missed runs before this one, oldest first. Due times of s count as missed if they are not recorded,
// and lie between this run and the k-th one recorded before it, or the oldest record that still exists. The newest k of
// them run. A job that has never run has missed nothing. With CatchUp weekly jobs run even if their service is
// restarted every other day. [Due] tells the function which run it is.
//
// The default is not to catch up. A k below 1 and a nil s are errors.
func CatchUp(k int, s Schedule) Option {
	return func(c *config) error {
		if k < 1 || s == nil {
			return fmt.Errorf("CatchUp(%d, %v): it needs a number of runs that is at least 1, and a schedule", k, s)
		}
		c.catchUp, c.schedule = k, s
		return nil
	}
}

func newConfig(opts []Option) (config, error) {
	c := config{mark: Start, keep: defaultKeep}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("an Option is nil")
		}
		if err := opt(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
