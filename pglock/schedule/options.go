package schedule

import (
	"fmt"
	"time"
)

// Option configures a [Job].
type Option func(*config) error

// Mark says what makes a run count as done.
type Mark int

const (
	// MarkStart: a run counts once it has begun. There is at most one for each due time. If the answer to the record of
	// the start is lost, the run counts but does not begin, and the error matches [pglock.ErrUnavailable].
	MarkStart Mark = iota + 1
	// MarkSuccess: a run counts once its function has returned nil while the lock was held. Until then it may
	// begin again.
	MarkSuccess
)

type config struct {
	mark     Mark
	marked   bool // WithMark was given
	keep     time.Duration
	catchUp  int
	schedule Schedule
}

const (
	defaultKeep = 30 * 24 * time.Hour
	maxKeep     = 100 * 365 * 24 * time.Hour
)

// WithMark sets what makes a run count as done, so that it is not repeated: [MarkStart], the default, or
// [MarkSuccess].
func WithMark(m Mark) Option {
	return func(c *config) error {
		if m != MarkStart && m != MarkSuccess {
			return fmt.Errorf("WithMark(%d): it must be MarkStart or MarkSuccess", m)
		}
		c.mark, c.marked = m, true
		return nil
	}
}

// WithKeep sets how long runs stay recorded: when a run is recorded, the job's records that were due longer ago are
// deleted. All runs up to the newest deleted one count as done for ever, so none is repeated, whatever the option says.
// The default is 30 days. Less than a second, or more than 100 years, is an error.
func WithKeep(d time.Duration) Option {
	return func(c *config) error {
		if d < time.Second || d > maxKeep {
			return fmt.Errorf("WithKeep(%v): it must be between a second and %v", d, maxKeep)
		}
		c.keep = d
		return nil
	}
}

// WithCatchUp runs the missed runs before this one, oldest first. A due time of s is missed if it has no
// record and lies between this run and the k-th record before it (or the oldest record). The newest k of the missed
// ones run. A job that has never run has missed nothing. So weekly jobs run even if their service is restarted every
// other day. [Due] tells the function which run it is.
//
// The default is not to catch up. A k below 1 and a nil s are errors.
func WithCatchUp(k int, s Schedule) Option {
	return func(c *config) error {
		if k < 1 || s == nil {
			return fmt.Errorf("WithCatchUp(%d, %v): it needs a number of runs that is at least 1, and a schedule", k, s)
		}
		c.catchUp, c.schedule = k, s
		return nil
	}
}
