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
	labels *keylabel.Labeler
	began  sync.Map // the pairs of use and label whose counters have been created

	held, waiting                   metric.Int64UpDownCounter
	acquired, refused, failed, lost metric.Int64Counter
	wait, hold, tx, record          metric.Float64Histogram
}

func newMetrics(c config) (*metrics, error) {
	meter := c.meters.Meter(scope)
	m := &metrics{labels: c.labels}
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

func (m *metrics) observer() *pglock.Observer {
	return &pglock.Observer{
		WaitStarted: func(ctx context.Context, e pglock.WaitStartedInfo) context.Context {
			if !keylabel.Internal(e.Use) {
				m.waiting.Add(ctx, 1, m.with(e.Keys, e.Use))
			}
			return nil
		},
		WaitEnded: func(ctx context.Context, e pglock.WaitEndedInfo) {
			if !keylabel.Internal(e.Use) {
				m.waiting.Add(ctx, -1, m.with(e.Keys, e.Use))
				m.wait.Record(ctx, e.Waited.Seconds(), m.with(e.Keys, e.Use, outcome(e.Err)))
			}
		},
		Acquired: func(ctx context.Context, e pglock.AcquiredInfo) context.Context {
			if !keylabel.Internal(e.Use) {
				m.startAtZero(e.Keys, e.Use)
				m.held.Add(ctx, 1, m.with(e.Keys, e.Use))
				m.acquired.Add(ctx, 1, m.with(e.Keys, e.Use, attribute.String("pglock.how", string(e.Source))))
			}
			return nil
		},
		Failed: m.callFailed,
		Released: func(ctx context.Context, e pglock.ReleasedInfo) {
			if !keylabel.Internal(e.Use) {
				m.ended(ctx, e.Keys, e.Use, e.Held.Seconds())
			}
		},
		Lost: func(ctx context.Context, e pglock.LostInfo) {
			if !keylabel.Internal(e.Use) {
				m.ended(ctx, e.Keys, e.Use, e.Held.Seconds())
				m.lost.Add(ctx, 1, m.with(e.Keys, e.Use, attribute.String("pglock.reason", string(e.Err.Reason))))
			}
		},
		TxLocked: func(ctx context.Context, e pglock.TxLockedInfo) {
			m.tx.Record(ctx, e.Took.Seconds(), m.with(e.Keys, e.Use, outcome(e.Err)))
		},
		Recorded: func(ctx context.Context, e pglock.RecordedInfo) {
			m.record.Record(ctx, e.Took.Seconds(), m.with(nil, e.Use, outcome(e.Err)))
		},
	}
}

// startAtZero creates the counters that alerts use, with the value zero, when a use and label are seen for the first
// time. A counter that appears with its first event has no increase, so a first loss would raise no alert.
func (m *metrics) startAtZero(keys []pglock.Key, use pglock.Use) {
	if _, began := m.began.LoadOrStore([2]string{keylabel.Use(use), m.labels.Of(keys, use)}, true); began {
		return
	}
	ctx := context.Background() // nothing has happened in the caller's span
	m.refused.Add(ctx, 0, m.with(keys, use))
	for _, reason := range keylabel.Reasons {
		m.lost.Add(ctx, 0, m.with(keys, use, attribute.String("pglock.reason", string(reason))))
	}
	for _, outcome := range keylabel.Failures {
		m.failed.Add(ctx, 0, m.with(keys, use, attribute.String("pglock.outcome", outcome)))
	}
}

func (m *metrics) callFailed(ctx context.Context, e pglock.FailedInfo) {
	switch {
	case keylabel.Internal(e.Use):
	case e.Try && errors.Is(e.Err, pglock.ErrNotAcquired):
		m.refused.Add(ctx, 1, m.with(e.Keys, e.Use))
	default:
		m.failed.Add(ctx, 1, m.with(e.Keys, e.Use, outcome(e.Err)))
	}
}

func (m *metrics) ended(ctx context.Context, keys []pglock.Key, use pglock.Use, seconds float64) {
	with := m.with(keys, use)
	m.held.Add(ctx, -1, with)
	m.hold.Record(ctx, seconds, with)
}

func outcome(err error) attribute.KeyValue {
	return attribute.String("pglock.outcome", keylabel.Outcome(err))
}

// with returns the attributes of a measurement.
func (m *metrics) with(keys []pglock.Key, use pglock.Use, more ...attribute.KeyValue) metric.MeasurementOption {
	more = append(more, attribute.String("pglock.use", keylabel.Use(use)))
	if m.labels != nil {
		more = append(more, attribute.String("pglock.key", m.labels.Of(keys, use)))
	}
	return metric.WithAttributes(more...)
}
