package prometheus

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

// Observer returns the Observer that counts. Give it to Lockers with pglock.WithObserver, and to the calls that take
// transaction locks, if those should be counted too. pglock.Observers joins it with other Observers.
func (c *Collector) Observer() *pglock.Observer {
	return &pglock.Observer{
		WaitStarted: func(_ context.Context, e pglock.WaitStartedInfo) context.Context {
			if !keylabel.Internal(e.Use) {
				c.waiting.WithLabelValues(c.with(e.Keys, e.Use, keylabel.Use(e.Use))...).Inc()
			}
			return nil
		},
		WaitEnded: c.waitEnded,
		Acquired: func(_ context.Context, e pglock.AcquiredInfo) context.Context {
			if !keylabel.Internal(e.Use) {
				c.startAtZero(e.Keys, e.Use)
				c.held.WithLabelValues(c.with(e.Keys, e.Use, keylabel.Use(e.Use))...).Inc()
				c.acquired.WithLabelValues(c.with(e.Keys, e.Use, keylabel.Use(e.Use), string(e.Source))...).Inc()
			}
			return nil
		},
		Failed: c.callFailed,
		Released: func(_ context.Context, e pglock.ReleasedInfo) {
			if !keylabel.Internal(e.Use) {
				c.ended(e.Keys, e.Use, e.Held.Seconds())
			}
		},
		Lost: func(_ context.Context, e pglock.LostInfo) {
			if !keylabel.Internal(e.Use) {
				c.ended(e.Keys, e.Use, e.Held.Seconds())
				c.lost.WithLabelValues(c.with(e.Keys, e.Use, keylabel.Use(e.Use), reason(e.Err))...).Inc()
			}
		},
		TxLocked: func(_ context.Context, e pglock.TxLockedInfo) {
			outcome := keylabel.Outcome(e.Err)
			c.txLockSeconds.WithLabelValues(c.with(e.Keys, e.Use, keylabel.Use(e.Use), outcome)...).Observe(e.Took.Seconds())
		},
		Recorded: func(_ context.Context, e pglock.RecordedInfo) {
			outcome := keylabel.Outcome(e.Err)
			c.recordSeconds.WithLabelValues(c.with(nil, e.Use, keylabel.Use(e.Use), outcome)...).Observe(e.Took.Seconds())
		},
	}
}

// startAtZero creates the counters that alerts use, with the value zero, when a use and label are seen for the first
// time. Prometheus sees no increase in a counter that appears with its first event, so a first loss would raise no
// alert.
func (c *Collector) startAtZero(keys []pglock.Key, use pglock.Use) {
	values := c.with(keys, use, keylabel.Use(use))
	if _, began := c.began.LoadOrStore([2]string{values[0], values[len(values)-1]}, true); began {
		return
	}
	c.refused.WithLabelValues(values...)
	for _, reason := range keylabel.Reasons {
		c.lost.WithLabelValues(c.with(keys, use, keylabel.Use(use), string(reason))...)
	}
	for _, outcome := range keylabel.Failures {
		c.failed.WithLabelValues(c.with(keys, use, keylabel.Use(use), outcome)...)
	}
}

func (c *Collector) waitEnded(_ context.Context, e pglock.WaitEndedInfo) {
	if keylabel.Internal(e.Use) {
		return
	}
	use := keylabel.Use(e.Use)
	c.waiting.WithLabelValues(c.with(e.Keys, e.Use, use)...).Dec()
	outcome := keylabel.Outcome(e.Err)
	c.waitSeconds.WithLabelValues(c.with(e.Keys, e.Use, use, outcome)...).Observe(e.Waited.Seconds())
}

func (c *Collector) callFailed(_ context.Context, e pglock.FailedInfo) {
	use := keylabel.Use(e.Use)
	switch {
	case keylabel.Internal(e.Use):
	case e.Try && errors.Is(e.Err, pglock.ErrNotAcquired):
		c.refused.WithLabelValues(c.with(e.Keys, e.Use, use)...).Inc()
	default:
		c.failed.WithLabelValues(c.with(e.Keys, e.Use, use, keylabel.Outcome(e.Err))...).Inc()
	}
}

// ended counts a lock that is not held any more.
func (c *Collector) ended(keys []pglock.Key, use pglock.Use, seconds float64) {
	values := c.with(keys, use, keylabel.Use(use))
	c.held.WithLabelValues(values...).Dec()
	c.holdSeconds.WithLabelValues(values...).Observe(seconds)
}

// with returns the values of labels, with that of the key if there is one.
func (c *Collector) with(keys []pglock.Key, use pglock.Use, values ...string) []string {
	if c.labels != nil {
		values = append(values, c.labels.Of(keys, use))
	}
	return values
}

func reason(err *pglock.LostError) string {
	if err == nil {
		return ""
	}
	return string(err.Reason)
}
