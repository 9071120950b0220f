// Package exporter exports snapshots of locks to Prometheus, over HTTP. Note receives a
// snapshot, and a scrape shows the last one.
package exporter

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pglock-toolkit/pglock/monitor"
)

// maxKeys is how many keys have separate series. The others share the key "other".
const maxKeys = 50

// Options says what to export, and how.
type Options struct {
	// Interval is how often a snapshot is taken. One that is older than three intervals is not the present: the server counts as
	// down then.
	Interval time.Duration
	// Version is the exporter's own.
	Version string
}

// Exporter is an http.Handler for /metrics and /healthz. Its methods may be called concurrently.
type Exporter struct {
	interval      time.Duration
	keys, rowKeys *keyLabels
	version       string

	mu    sync.Mutex
	state state
}

// state is what a scrape shows.
type state struct {
	// snapshot is nil if the server has not answered.
	snapshot *monitor.Snapshot
	noted    time.Time
	// snapshots and failures count the attempts since the exporter started.
	snapshots, failures int
}

// New returns an Exporter that knows no snapshot.
func New(o Options) *Exporter {
	return &Exporter{
		interval: o.Interval,
		keys:     newKeyLabels(maxKeys),
		rowKeys:  newKeyLabels(maxKeys),
		version:  o.Version,
	}
}

// Note notes a snapshot, or that it could not be taken.
func (e *Exporter) Note(s *monitor.Snapshot, err error) {
	if err != nil {
		s = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.snapshots++; err != nil {
		e.state.failures++
	}
	e.state.snapshot, e.state.noted = s, time.Now()
}

// now returns the present state, which has no snapshot that is too old.
func (e *Exporter) now() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.state
	if time.Since(now.noted) > max(3*e.interval, time.Second) {
		now.snapshot = nil
	}
	return now
}

// ServeHTTP implements [http.Handler].
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/healthz": // the exporter itself works; pglock_up says whether the server does
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // the client is gone
	default:
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{e.now(), e.keys, e.rowKeys, e.version})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}
}
