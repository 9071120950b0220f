package docs

import (
	"context"
	"net"
	"testing"

	// docs/operating.md's program imports these two, so this module requires them.
	_ "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// collector accepts OTLP over gRPC, as a collector does, and forgets it. It returns its address.
func collector(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	server := grpc.NewServer()
	metricsv1.RegisterMetricsServiceServer(server, acceptMetrics{})
	tracev1.RegisterTraceServiceServer(server, acceptSpans{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must.Succeed(t, <-served)
	})
	return listener.Addr().String()
}

type acceptMetrics struct {
	metricsv1.UnimplementedMetricsServiceServer
}

func (acceptMetrics) Export(
	context.Context, *metricsv1.ExportMetricsServiceRequest,
) (*metricsv1.ExportMetricsServiceResponse, error) {
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}

type acceptSpans struct {
	tracev1.UnimplementedTraceServiceServer
}

func (acceptSpans) Export(context.Context, *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	return &tracev1.ExportTraceServiceResponse{}, nil
}
