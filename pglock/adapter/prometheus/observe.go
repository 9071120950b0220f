package prometheus

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

// Observe is the Observer that counts. Give it to Lockers with pglock.WithObserver, and to the calls that take transaction
// locks, if those should be counted too.
func (c *Collector) Observe(_ context.Context, e pglock.Event) {
	if keylabel.Internal(e.Use) {
		return
	}
	switch e.Type {
	case pglock.EventWaitStarted:
		c.waiting.WithLabelValues(c.of(e)...).Inc()
	case pglock.EventWaitEnded:
		c.waiting.WithLabelValues(c.of(e)...).Dec()
		c.waitSeconds.WithLabelValues(c.of(e, keylabel.Outcome(e.Err))...).Observe(e.Took.Seconds())
	case pglock.EventAcquired:
		c.startAtZero(e)
		c.held.WithLabelValues(c.of(e)...).Inc()
		c.acquired.WithLabelValues(c.of(e)...).Inc()
	case pglock.EventFailed:
		if e.Try && errors.Is(e.Err, pglock.ErrNotAcquired) {
			c.refused.WithLabelValues(c.of(e)...).Inc()
		} else {
			c.failed.WithLabelValues(c.of(e, keylabel.Outcome(e.Err))...).Inc()
		}
	case pglock.EventReleased, pglock.EventLost:
		c.ended(e)
	case pglock.EventTxLocked:
		c.txLockSeconds.WithLabelValues(c.of(e, keylabel.Outcome(e.Err))...).Observe(e.Took.Seconds())
	case pglock.EventRecorded:
		c.recordSeconds.WithLabelValues(c.of(e, keylabel.Outcome(e.Err))...).Observe(e.Took.Seconds())
	}
}

// startAtZero creates the counters that alerts use, with the value zero, when a use and label are seen for the first
// time. Prometheus sees no increase in a counter that appears with its first event, so a first loss would raise no
// alert.
func (c *Collector) startAtZero(e pglock.Event) {
	values := c.of(e)
	if _, began := c.began.LoadOrStore([2]string{values[0], values[len(values)-1]}, true); began {
		return
	}
	c.refused.WithLabelValues(values...)
	for _, reason := range keylabel.Reasons {
		c.lost.WithLabelValues(c.of(e, string(reason))...)
	}
	for _, outcome := range keylabel.Failures {
		c.failed.WithLabelValues(c.of(e, outcome)...)
	}
}

// ended counts a lock that is not held any more.
func (c *Collector) ended(e pglock.Event) {
	c.held.WithLabelValues(c.of(e)...).Dec()
	c.holdSeconds.WithLabelValues(c.of(e)...).Observe(e.Took.Seconds())
	if lost, ok := errors.AsType[*pglock.LostError](e.Err); ok {
		c.lost.WithLabelValues(c.of(e, string(lost.Reason))...).Inc()
	}
}

// of returns the values of labels: the use, further ones, and that of the key if there is one.
func (c *Collector) of(e pglock.Event, more ...string) []string {
	values := append([]string{keylabel.Use(e.Use)}, more...)
	if c.label != nil {
		values = append(values, c.label(keylabel.Key(e.Keys, e.Use)))
	}
	return values
}
