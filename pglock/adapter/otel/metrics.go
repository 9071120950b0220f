package otel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

type metrics struct {
	label func(pglock.Key) string // nil: none
	began sync.Map                // the pairs of use and label whose counters have been created

	held, waiting                   metric.Int64UpDownCounter
	acquired, refused, failed, lost metric.Int64Counter
	wait, hold, tx, record          metric.Float64Histogram
}

func newMetrics(c config) (*metrics, error) {
	meter := c.meters.Meter(scope)
	m := &metrics{label: c.label}
	var errs [10]error
	m.held, errs[0] = meter.Int64UpDownCounter("pglock.client.held",
		metric.WithUnit("{lock}"), metric.WithDescription("Locks that this process holds."))
	m.waiting, errs[1] = meter.Int64UpDownCounter("pglock.client.waiting",
		metric.WithUnit("{call}"), metric.WithDescription("Calls that wait for a lock."))
	m.acquired, errs[2] = meter.Int64Counter("pglock.client.acquired",
		metric.WithUnit("{lock}"), metric.WithDescription("Locks that were acquired."))
	m.refused, errs[3] = meter.Int64Counter("pglock.client.refused",
		metric.WithUnit("{call}"), metric.WithDescription("Tries that found the lock held."))
	m.failed, errs[4] = meter.Int64Counter("pglock.client.failed",
		metric.WithUnit("{call}"), metric.WithDescription("Other calls that got no lock, by what went wrong."))
	m.lost, errs[5] = meter.Int64Counter("pglock.client.lost",
		metric.WithUnit("{lock}"), metric.WithDescription("Locks that ended without being unlocked, by why."))
	m.wait, errs[6] = meter.Float64Histogram("pglock.client.wait.duration", seconds(),
		metric.WithUnit("s"), metric.WithDescription("How long calls waited that could not have their lock at once."))
	m.hold, errs[7] = meter.Float64Histogram("pglock.client.hold.duration", seconds(),
		metric.WithUnit("s"), metric.WithDescription("How long locks were held."))
	m.tx, errs[8] = meter.Float64Histogram("pglock.client.tx_lock.duration", seconds(),
		metric.WithUnit("s"), metric.WithDescription("How long calls for locks of transactions took."))
	m.record, errs[9] = meter.Float64Histogram("pglock.client.record.duration", seconds(), metric.WithUnit("s"),
		metric.WithDescription("How long runs of jobs, work that is done once, and decisions of rate limits took."))
	return m, errors.Join(errs[:]...)
}

func seconds() metric.HistogramOption {
	return metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
}

func (m *metrics) observe(ctx context.Context, e pglock.Event) {
	switch e.Type {
	case pglock.EventWaitStarted:
		m.waiting.Add(ctx, 1, m.of(e))
	case pglock.EventWaitEnded:
		m.waiting.Add(ctx, -1, m.of(e))
		m.wait.Record(ctx, e.Took.Seconds(), m.of(e, outcome(e.Err)))
	case pglock.EventAcquired:
		m.startAtZero(e)
		m.held.Add(ctx, 1, m.of(e))
		m.acquired.Add(ctx, 1, m.of(e))
	case pglock.EventFailed:
		if e.Try && errors.Is(e.Err, pglock.ErrNotAcquired) {
			m.refused.Add(ctx, 1, m.of(e))
		} else {
			m.failed.Add(ctx, 1, m.of(e, outcome(e.Err)))
		}
	case pglock.EventReleased, pglock.EventLost:
		m.ended(ctx, e)
	case pglock.EventTxLocked:
		m.tx.Record(ctx, e.Took.Seconds(), m.of(e, outcome(e.Err)))
	case pglock.EventRecorded:
		m.record.Record(ctx, e.Took.Seconds(), m.of(e, outcome(e.Err)))
	}
}

// startAtZero creates the counters that alerts use, with the value zero, when a use and label are seen for the first
// time. A counter that appears with its first event has no increase, so a first loss would raise no alert.
func (m *metrics) startAtZero(e pglock.Event) {
	if _, began := m.began.LoadOrStore([2]string{keylabel.Use(e.Use), m.key(e)}, true); began {
		return
	}
	ctx := context.Background() // nothing has happened in the caller's span
	m.refused.Add(ctx, 0, m.of(e))
	for _, reason := range keylabel.Reasons {
		m.lost.Add(ctx, 0, m.of(e, attribute.String("pglock.reason", string(reason))))
	}
	for _, outcome := range keylabel.Failures {
		m.failed.Add(ctx, 0, m.of(e, attribute.String("pglock.outcome", outcome)))
	}
}

// ended counts a lock that is not held any more.
func (m *metrics) ended(ctx context.Context, e pglock.Event) {
	m.held.Add(ctx, -1, m.of(e))
	m.hold.Record(ctx, e.Took.Seconds(), m.of(e))
	if lost, ok := errors.AsType[*pglock.LostError](e.Err); ok {
		m.lost.Add(ctx, 1, m.of(e, attribute.String("pglock.reason", string(lost.Reason))))
	}
}

func outcome(err error) attribute.KeyValue {
	return attribute.String("pglock.outcome", keylabel.Outcome(err))
}

// of returns the attributes of a measurement.
func (m *metrics) of(e pglock.Event, more ...attribute.KeyValue) metric.MeasurementOption {
	more = append(more, attribute.String("pglock.use", keylabel.Use(e.Use)))
	if m.label != nil {
		more = append(more, attribute.String("pglock.key", m.key(e)))
	}
	return metric.WithAttributes(more...)
}

func (m *metrics) key(e pglock.Event) string {
	if m.label == nil {
		return ""
	}
	return m.label(keylabel.Key(e.Keys, e.Use))
}
