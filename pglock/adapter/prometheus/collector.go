// Package prometheus makes Prometheus metrics from what happens to locks: register a [Collector], and give its
// Observer to the Lockers.
//
//	metrics, err := prometheus.New()
//	…
//	registry.MustRegister(metrics)
//	locker, err := pglock.New(pool, pglock.WithObserver(metrics.Observe))
//
// It is a separate module. docs/operating.md lists the metrics, with alerts and a dashboard.
package prometheus

import (
	"errors"
	"fmt"
	"sync"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Option configures a [Collector].
type Option func(*config) error

type config struct{ label func(pglock.Key) string } // nil: none

// WithKeyLabel gives the metrics a label key, with the value that label returns for the key of a lock, such as
//
//	func(key pglock.Key) string { kind, _, _ := strings.Cut(key.Name(), ":"); return kind }
//
// It must return few different values, since each makes a time series. Without this option there is no such label. A
// nil function is an error.
func WithKeyLabel(label func(pglock.Key) string) Option {
	return func(c *config) error {
		if label == nil {
			return errors.New("WithKeyLabel: the function is nil")
		}
		c.label = label
		return nil
	}
}

// Collector has the metrics of any number of Lockers. It implements the Collector of client_golang; its methods may be
// called concurrently.
type Collector struct {
	label func(pglock.Key) string // nil: none
	began sync.Map                // the pairs of use and label whose counters have been created

	held, waiting                   *client.GaugeVec
	acquired, refused, failed, lost *client.CounterVec
	waitSeconds, holdSeconds        *client.HistogramVec
	txLockSeconds, recordSeconds    *client.HistogramVec
}

// New returns a Collector that has counted nothing.
func New(opts ...Option) (*Collector, error) {
	var c config
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("pglock/adapter/prometheus: an Option is nil")
		}
		if err := opt(&c); err != nil {
			return nil, fmt.Errorf("pglock/adapter/prometheus: %w", err)
		}
	}
	labels := func(names ...string) []string {
		if c.label != nil {
			names = append(names, "key")
		}
		return names
	}
	gauge := func(name, help string) *client.GaugeVec {
		return client.NewGaugeVec(client.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels("use"))
	}
	counter := func(name, help string, names ...string) *client.CounterVec {
		return client.NewCounterVec(client.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels(names...))
	}
	histogram := func(name, help string, names ...string) *client.HistogramVec {
		return client.NewHistogramVec(client.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		}, labels(names...))
	}
	return &Collector{
		label:         c.label,
		held:          gauge("held", "Locks that this process holds now."),
		waiting:       gauge("waiting", "Calls that wait for a lock now."),
		acquired:      counter("acquired_total", "Locks that were acquired.", "use"),
		refused:       counter("refused_total", "Tries that found the lock held.", "use"),
		failed:        counter("failed_total", "Other calls that got no lock, by what went wrong.", "use", "outcome"),
		lost:          counter("lost_total", "Locks that ended without being unlocked, by why.", "use", "reason"),
		waitSeconds:   histogram("wait_seconds", "How long calls waited that could not have their lock at once.", "use", "outcome"),
		holdSeconds:   histogram("hold_seconds", "How long locks were held.", "use"),
		txLockSeconds: histogram("tx_lock_seconds", "How long calls for locks of transactions took.", "use", "outcome"),
		recordSeconds: histogram("record_seconds", "How long runs of jobs, work that is done once, and decisions of rate limits took.", "use", "outcome"),
	}, nil
}

const namespace = "pglock_client"

// buckets are the upper bounds of the histograms, in seconds.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

func (c *Collector) all() []client.Collector {
	return []client.Collector{
		c.held, c.waiting, c.acquired, c.refused, c.failed, c.lost, c.waitSeconds, c.holdSeconds, c.txLockSeconds, c.recordSeconds,
	}
}

// Describe implements the Collector of client_golang.
func (c *Collector) Describe(to chan<- *client.Desc) {
	for _, metric := range c.all() {
		metric.Describe(to)
	}
}

// Collect implements the Collector of client_golang.
func (c *Collector) Collect(to chan<- client.Metric) {
	for _, metric := range c.all() {
		metric.Collect(to)
	}
}
