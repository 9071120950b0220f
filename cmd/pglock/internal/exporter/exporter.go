// Package exporter exports snapshots of advisory locks to Prometheus, over HTTP.
//
// A scrape takes a snapshot. Concurrent scrapes share one, as do those within a minimal interval, so that many scrapers
// do not burden the database.
package exporter

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Options says what to export, and how.
type Options struct {
	// Take takes a snapshot.
	Take func(context.Context) (*monitor.Snapshot, error)
	// MaxKeys is how many keys have separate series. The others share the key "(other)".
	MaxKeys int
	// Sample, if it is not 0, is how often snapshots are taken to count waits, also without scrapes.
	Sample time.Duration
	// MinInterval is how old a snapshot may be to be reused. An error is remembered for the same time.
	MinInterval time.Duration
	// Version is the exporter's own.
	Version string
	// Logger gets a line when the server stops answering, and when it answers again.
	Logger *slog.Logger
}

// Exporter is an http.Handler for /metrics, /healthz and a page that links to them. It may serve many requests at
// once.
type Exporter struct {
	mux           *http.ServeMux
	source        *source
	keys, rowKeys *keyLabels
	build         prometheus.Collector // the only metric that is not about the server
}

// New returns an Exporter. When ctx ends, so do snapshots that are being taken, and sampling.
func New(ctx context.Context, o Options) *Exporter {
	e := &Exporter{
		mux:     http.NewServeMux(),
		source:  newSource(ctx, o),
		keys:    newKeyLabels(o.MaxKeys),
		rowKeys: newKeyLabels(o.MaxKeys),
		build:   version(o.Version),
	}
	e.mux.HandleFunc("GET /metrics", e.metrics)
	e.mux.HandleFunc("GET /healthz", e.healthz)
	e.mux.HandleFunc("GET /{$}", e.index)
	return e
}

func version(v string) prometheus.Collector {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pglock_exporter_build_info",
		Help: "The version of the exporter. Always 1."}, []string{"version"})
	info.WithLabelValues(valid(v)).Set(1)
	return info
}

// ServeHTTP implements [http.Handler].
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.mux.ServeHTTP(w, r) }

func (e *Exporter) metrics(w http.ResponseWriter, r *http.Request) {
	now, err := e.source.state(r.Context())
	if err != nil {
		http.Error(w, "the scrape was abandoned", http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.build, collector{now, e.keys, e.rowKeys, e.source.waits})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// healthz reports that the exporter itself works. pglock_up reports whether the server does.
func (e *Exporter) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // the client is gone
}

func (e *Exporter) index(w http.ResponseWriter, _ *http.Request) {
	const page = "<!doctype html><title>pglock exporter</title>" +
		"<h1>pglock exporter</h1><p><a href=\"/metrics\">Metrics</a></p>"
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(page)) // the client is gone
}
