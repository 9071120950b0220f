package telemetry

import (
	"context"
	"net"
	"sync"
	"testing"

	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	numbersv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	spansv1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// receiver receives OTLP over gRPC, as a collector does, and keeps it for each sending process.
type receiver struct {
	address string

	mu      sync.Mutex
	metrics map[string]map[string]*numbersv1.Metric // the latest, by process and name
	spans   map[string][]*spansv1.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	r := &receiver{
		address: listener.Addr().String(),
		metrics: map[string]map[string]*numbersv1.Metric{}, spans: map[string][]*spansv1.Span{},
	}
	server := grpc.NewServer()
	metricsv1.RegisterMetricsServiceServer(server, &metricsService{receiver: r})
	tracev1.RegisterTraceServiceServer(server, &traceService{receiver: r})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must.Succeed(t, <-served)
	})
	return r
}

type metricsService struct {
	metricsv1.UnimplementedMetricsServiceServer
	*receiver
}

func (s *metricsService) Export(
	_ context.Context, request *metricsv1.ExportMetricsServiceRequest,
) (*metricsv1.ExportMetricsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range request.ResourceMetrics {
		process := instance(from.Resource)
		if s.metrics[process] == nil {
			s.metrics[process] = map[string]*numbersv1.Metric{}
		}
		for _, scope := range from.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.metrics[process][m.Name] = m
			}
		}
	}
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}

type traceService struct {
	tracev1.UnimplementedTraceServiceServer
	*receiver
}

func (s *traceService) Export(
	_ context.Context, request *tracev1.ExportTraceServiceRequest,
) (*tracev1.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range request.ResourceSpans {
		process := instance(from.Resource)
		for _, scope := range from.ScopeSpans {
			s.spans[process] = append(s.spans[process], scope.Spans...)
		}
	}
	return &tracev1.ExportTraceServiceResponse{}, nil
}

// instance returns the process that a resource names.
func instance(r *resourcev1.Resource) string { return textOf(r.GetAttributes(), "service.instance.id") }

func textOf(all []*commonv1.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// number returns how much a process has counted with such an attribute so far; ok is false if it has not sent that.
func (r *receiver) number(process, metric, key, value string) (n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.metrics[process][metric]
	for _, p := range m.GetSum().GetDataPoints() {
		if textOf(p.Attributes, key) == value {
			n, ok = n+p.GetAsInt(), true
		}
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		if textOf(p.Attributes, key) == value {
			n, ok = n+int64(p.Count), true
		}
	}
	return n, ok
}

// waits counts the events with a holder in the spans of a process's waits that are children of its spans "pay".
func (r *receiver) waits(process string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parents := map[string]bool{}
	for _, span := range r.spans[process] {
		parents[string(span.SpanId)] = span.Name == "pay"
	}
	for _, span := range r.spans[process] {
		if span.Name != "pglock wait" || !parents[string(span.ParentSpanId)] {
			continue
		}
		for _, event := range span.Events {
			if event.Name == "pglock.holder" && textOf(event.Attributes, "pglock.holder.application") != "" {
				n++
			}
		}
	}
	return n
}
