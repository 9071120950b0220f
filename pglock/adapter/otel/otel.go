// Package otel makes OpenTelemetry metrics and spans from what happens to locks: give the Observer of [New] to the
// Lockers.
//
//	observer, err := otel.New(otel.KeyTemplates("invoice:{id}"))
//	…
//	locker, err := pglock.New(pool, pglock.WithObserver(observer))
//
// A call that has its lock at once makes no span. A call that really waits makes one, "pglock wait", with an event
// "pglock.holder" for each session that is in the way.
//
// It is a separate module. docs/observability.md lists the metrics.
package otel

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/keylabel"
)

// Option configures [New].
type Option func(*config) error

type config struct {
	labels       *keylabel.Labeler
	meters       metric.MeterProvider
	tracers      trace.TracerProvider
	holdersAfter time.Duration
}

// KeyTemplates gives the metrics an attribute pglock.key, whose values are the given templates: texts such as
// "invoice:{id}", in which each {…} matches at least one character. The value for a lock is the first template that its
// name matches, and otherwise "other". Without KeyTemplates or [KeyLabel] metrics have no such attribute, since each
// name would make a time series. It is an error to give no template, an empty one, or more than a hundred.
func KeyTemplates(templates ...string) Option {
	return func(c *config) (err error) {
		c.labels, err = keylabel.Templates(templates...)
		return err
	}
}

// KeyLabel gives the metrics an attribute pglock.key, whose values label returns. label is called concurrently. After
// it has returned a hundred different values, further ones become "other", as the empty text always does.
func KeyLabel(label func(pglock.Key) string) Option {
	return func(c *config) (err error) {
		c.labels, err = keylabel.New(label)
		return err
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

// HoldersAfter sets how long a call waits before the server is asked for the holders, in the background. It is asked
// only for spans that are recorded. The default is 100 ms. With a negative d it is never asked, and only failed waits
// have the holders.
func HoldersAfter(d time.Duration) Option {
	return func(c *config) error {
		c.holdersAfter = d
		return nil
	}
}

// New returns an Observer that makes metrics and spans. Use one for all Lockers of a process, and for the calls that
// take transaction locks; pglock.Observers joins it with others.
func New(opts ...Option) (*pglock.Observer, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), holdersAfter: 100 * time.Millisecond}
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
	s := &spans{tracer: c.tracers.Tracer(scope), holdersAfter: c.holdersAfter}
	return pglock.Observers(s.observer(), m.observer()), nil
}

const scope = "github.com/pglock-toolkit/pglock/pglock/adapter/otel"
