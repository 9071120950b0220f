package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/otel"
	"github.com/pglock-toolkit/pglock/pglock/adapter/prometheus"
)

// workerVariable makes this test binary a process of the fleet.
const workerVariable = "PGLOCK_TELEMETRY_WORKER"

// orders are a worker's settings.
type orders struct {
	Name     string
	Database string // connection string
	Receiver string // host and port that take OTLP
}

func init() {
	text := os.Getenv(workerVariable)
	if text == "" {
		return
	}
	var o orders
	if err := errors.Join(json.Unmarshal([]byte(text), &o), o.run()); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is a worker as users write it. It prints the address of its metrics, and returns when its input ends, as it does
// when the parent ends.
func (o orders) run() (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	metrics, err := prometheus.New(prometheus.KeyTemplates("invoice:{id}"))
	if err != nil {
		return err
	}
	tracers, traced, shutDown, err := o.openTelemetry(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutDown(context.Background())) }()
	observer := pglock.Observers(metrics.Observer(), traced)
	if err := serve(metrics); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pglock.New(pool, pglock.WithObserver(observer), pglock.WithApplicationName(o.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	small, err := pglock.New(pool, pglock.WithObserver(observer), pglock.WithMaxHeld(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, small.Close(context.Background())) }()
	return (&worker{o.Name, pool, locker, small, observer, tracers.Tracer("worker")}).work(ctx)
}

// openTelemetry sends the adapter's metrics and spans to the receiver.
func (o orders) openTelemetry(ctx context.Context) (
	tracers *trace.TracerProvider, observer *pglock.Observer, shutDown func(context.Context) error, err error,
) {
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(o.Receiver), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, nil, nil, err
	}
	numbers, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(o.Receiver), otlpmetricgrpc.WithInsecure())
	if err != nil {
		return nil, nil, nil, err
	}
	from := resource.NewSchemaless(attribute.String("service.name", "billing"), attribute.String("service.instance.id", o.Name))
	tracers = trace.NewTracerProvider(trace.WithBatcher(spans, trace.WithBatchTimeout(interval)), trace.WithResource(from))
	meters := metric.NewMeterProvider(metric.WithResource(from),
		metric.WithReader(metric.NewPeriodicReader(numbers, metric.WithInterval(interval))))
	observer, err = otel.New(otel.KeyTemplates("invoice:{id}"), otel.HoldersAfter(time.Millisecond),
		otel.WithTracerProvider(tracers), otel.WithMeterProvider(meters))
	return tracers, observer, func(ctx context.Context) error {
		return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx))
	}, err
}

// interval is how often numbers are sent, scraped and evaluated.
const interval = 250 * time.Millisecond

// serve serves the metrics to Prometheus, and prints where.
func serve(metrics client.Collector) error {
	registry := client.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { _ = http.Serve(listener, nil) }() // until the process ends
	fmt.Println(listener.Addr())
	return nil
}
