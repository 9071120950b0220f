// Package otel makes OpenTelemetry metrics and spans from what happens to locks: give the Observer of [New] to the
// Lockers.
//
//	observer, err := otel.New()
//	…
//	locker, err := pglock.New(pool, pglock.WithObserver(observer))
//
// A call that has its lock at once makes no span. A call that really waited makes one, "pglock wait". If it
// waited in vain the span has an event "pglock.holder" for each session that is in the way.
//
// It is a separate module. docs/operating.md lists the metrics.
package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/keylabel"
)

// Option configures [New].
type Option func(*config) error

type config struct {
	label   func(pglock.Key) string // nil: none
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

// WithKeyLabel gives the metrics an attribute pglock.key, with the value that label returns for the key of a lock, such
// as
//
//	func(key pglock.Key) string { kind, _, _ := strings.Cut(key.Name(), ":"); return kind }
//
// It must return few different values, since each makes a time series. Without this option metrics have no such
// attribute. A nil function is an error.
func WithKeyLabel(label func(pglock.Key) string) Option {
	return func(c *config) error {
		if label == nil {
			return errors.New("WithKeyLabel: the function is nil")
		}
		c.label = label
		return nil
	}
}

// WithMeterProvider sets where the metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p == nil {
			return errors.New("WithMeterProvider: the provider is nil")
		}
		c.meters = p
		return nil
	}
}

// WithTracerProvider sets where the spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p == nil {
			return errors.New("WithTracerProvider: the provider is nil")
		}
		c.tracers = p
		return nil
	}
}

// New returns an Observer that makes metrics and spans. Use one for all Lockers of a process, and for the calls that
// take transaction locks.
func New(opts ...Option) (pglock.Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("pglock/adapter/otel: an Option is nil")
		}
		if err := opt(&c); err != nil {
			return nil, fmt.Errorf("pglock/adapter/otel: %w", err)
		}
	}
	m, err := newMetrics(c)
	if err != nil {
		return nil, fmt.Errorf("pglock/adapter/otel: %w", err)
	}
	s := &spans{tracer: c.tracers.Tracer(scope)}
	return func(ctx context.Context, e pglock.Event) {
		if keylabel.Internal(e.Use) {
			return
		}
		if e.Type == pglock.EventWaitEnded {
			s.ended(ctx, e)
		}
		m.observe(ctx, e)
	}, nil
}

const scope = "github.com/pglock-toolkit/pglock/pglock/adapter/otel"
