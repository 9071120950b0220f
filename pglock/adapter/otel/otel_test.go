package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/otel"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// collector is the SDK with a reader and an exporter in memory.
type collector struct {
	metrics *metric.ManualReader
	spans   *tracetest.InMemoryExporter
	tracers *trace.TracerProvider
	options []otel.Option
}

func newCollector() *collector {
	c := &collector{metrics: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	c.tracers = trace.NewTracerProvider(trace.WithSyncer(c.spans))
	c.options = []otel.Option{
		otel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(c.metrics))), otel.WithTracerProvider(c.tracers),
	}
	return c
}

// numbers returns what the reader has, a line for each number.
func (c *collector) numbers(t *testing.T) (lines []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Succeed(t, c.metrics.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s %s %d", m.Name, text(p.Attributes), p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s %s %d in %vs", m.Name, text(p.Attributes), p.Count, p.Sum))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func text(set attribute.Set) string {
	var parts []string
	for _, a := range set.ToSlice() {
		parts = append(parts, strings.TrimPrefix(string(a.Key), "pglock.")+"="+fmt.Sprint(a.Value.AsInterface()))
	}
	return strings.Join(parts, ",")
}

// work does everything that is counted, with the waits and hold times that the test expects. It runs in a bubble.
func work(t *testing.T, o pglock.Observer) {
	t.Helper()
	ctx, server := t.Context(), locktest.NewServer()
	l, err := server.Locker(pglock.WithObserver(o))
	must.Succeed(t, err)
	other, err := server.Locker()
	must.Succeed(t, err)
	key := pglock.NewKey("invoice:42")
	theirs, err := other.Lock(ctx, key)
	must.Succeed(t, err)
	if _, err := l.TryLock(ctx, key); err == nil {
		t.Error("a lock that is held was acquired")
	}
	if _, err := l.Lock(ctx, key, pglock.MaxWait(2*time.Second)); err == nil {
		t.Error("a lock that is held was acquired")
	}
	time.AfterFunc(4*time.Second, func() { must.Succeed(t, theirs.Unlock(context.Background())) })
	lock, err := l.Lock(ctx, key)
	must.Succeed(t, err)
	time.Sleep(7 * time.Second)
	must.Succeed(t, lock.Unlock(ctx))

	lost, err := l.Lock(ctx, pglock.NewKey("report"))
	must.Succeed(t, err)
	time.Sleep(3 * time.Second)
	server.Lose(pglock.NewKey("report"))
	<-lost.Done()
	_, err = l.Lock(ctx, pglock.NewKey("invoice:43")) // still held at the end
	must.Succeed(t, err)

	sem, err := semaphore.New(l, pglock.NewKey("api"), 1)
	must.Succeed(t, err)
	permit, err := sem.Acquire(ctx)
	must.Succeed(t, err)
	if _, err := sem.Acquire(ctx, pglock.MaxWait(time.Second)); err == nil {
		t.Error("a permit that is held was acquired")
	}
	must.Succeed(t, permit.Release(ctx))

	// The Server in memory has no transactions.
	o(ctx, pglock.Event{Type: pglock.EventTxLocked, Keys: []pglock.Key{key}})
	o(ctx, pglock.Event{
		Type: pglock.EventTxLocked, Use: pglock.Use{Kind: pglock.UsePermit, Key: pglock.NewKey("api")}, Took: time.Second,
	})
	job, err := schedule.New(l, key)
	must.Succeed(t, err)
	due := time.Now()
	work := func(context.Context, *pglock.Lock) error { time.Sleep(5 * time.Second); return nil }
	must.Succeed(t, job.Run(ctx, due, work))
	if err := job.Run(ctx, due, work); !errors.Is(err, pglock.ErrDone) {
		t.Errorf("a run that was done: %v", err)
	}
	synctest.Wait()
}

func TestAReaderHasWhatAProcessDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		o, err := otel.New(append(c.options, otel.WithKeyLabel(label))...)
		must.Succeed(t, err)
		work(t, o)
		want := []string{
			"pglock.client.acquired key=invoice:{id},use=lock 2",
			"pglock.client.acquired key=invoice:{id},use=tick 1",
			"pglock.client.acquired key=other,use=lock 1",
			"pglock.client.acquired key=other,use=permit 1",
			"pglock.client.failed key=invoice:{id},outcome=not_acquired,use=lock 1",
			"pglock.client.failed key=other,outcome=not_acquired,use=permit 1",
			"pglock.client.held key=invoice:{id},use=lock 1",
			"pglock.client.held key=invoice:{id},use=tick 0",
			"pglock.client.held key=other,use=lock 0",
			"pglock.client.held key=other,use=permit 0",
			"pglock.client.hold.duration key=invoice:{id},use=lock 1 in 7s",
			"pglock.client.hold.duration key=invoice:{id},use=tick 1 in 5s",
			"pglock.client.hold.duration key=other,use=lock 1 in 3s",
			"pglock.client.hold.duration key=other,use=permit 1 in 1s",
			"pglock.client.lost key=other,reason=session,use=lock 1",
			"pglock.client.refused key=invoice:{id},use=lock 1",
			"pglock.client.record.duration key=invoice:{id},outcome=acquired,use=tick 1 in 5s",
			"pglock.client.record.duration key=invoice:{id},outcome=not_acquired,use=tick 1 in 0s",
			"pglock.client.tx_lock.duration key=invoice:{id},outcome=acquired,use=lock 1 in 0s",
			"pglock.client.tx_lock.duration key=other,outcome=acquired,use=permit 1 in 1s",
			"pglock.client.wait.duration key=invoice:{id},outcome=acquired,use=lock 1 in 4s",
			"pglock.client.wait.duration key=invoice:{id},outcome=not_acquired,use=lock 1 in 2s",
			"pglock.client.wait.duration key=other,outcome=not_acquired,use=permit 1 in 1s",
			"pglock.client.waiting key=invoice:{id},use=lock 0",
			"pglock.client.waiting key=other,use=permit 0",
		}
		for _, zero := range slices.Concat(
			zeros("key=invoice:{id}", "use=lock"), zeros("key=other", "use=lock"), zeros("key=other", "use=permit"),
			zeros("key=invoice:{id}", "use=tick"),
		) {
			series := strings.TrimSuffix(zero, "0")
			if !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, series) }) {
				want = append(want, zero)
			}
		}
		slices.Sort(want)
		if got := c.numbers(t); !slices.Equal(got, want) {
			t.Errorf("the reader has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// zeros returns the counters that exist from the first lock on, so that an alert sees their first increase.
func zeros(key, use string) []string {
	lines := []string{fmt.Sprintf("pglock.client.refused %s,%s 0", key, use)}
	for _, reason := range []string{"session", "lease", "gone", "max-hold", "closed"} {
		lines = append(lines, fmt.Sprintf("pglock.client.lost %s,reason=%s,%s 0", key, reason, use))
	}
	for _, outcome := range []string{"not_acquired", "canceled", "unavailable", "too_many", "deadlock", "closed", "error"} {
		lines = append(lines, fmt.Sprintf("pglock.client.failed %s,outcome=%s,%s 0", key, outcome, use))
	}
	return lines
}

func TestAWaitIsASpanThatNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector()
		o, err := otel.New(c.options...)
		must.Succeed(t, err)
		server := locktest.NewServer()
		l, err := server.Locker(pglock.WithObserver(o))
		must.Succeed(t, err)
		other, err := server.Locker()
		must.Succeed(t, err)
		key := pglock.NewKey("invoice:42")
		ctx, parent := c.tracers.Tracer("test").Start(t.Context(), "request")
		free, err := l.Lock(ctx, key)
		must.Succeed(t, err)
		must.Succeed(t, free.Unlock(ctx))
		if n := len(c.spans.GetSpans()); n != 0 {
			t.Errorf("a lock that was free made %d spans", n)
		}
		theirs, err := other.Lock(ctx, key)
		must.Succeed(t, err)
		if _, err := l.Lock(ctx, key, pglock.MaxWait(time.Millisecond)); err == nil {
			t.Error("a lock that is held was acquired")
		}
		time.AfterFunc(time.Second, func() { must.Succeed(t, theirs.Unlock(context.Background())) })
		must.Succeed(t, l.Do(ctx, key, func(ctx context.Context, _ *pglock.Lock) error {
			_, child := c.tracers.Tracer("test").Start(ctx, "work")
			child.End()
			return nil
		}))
		synctest.Wait()
		spans := c.spans.GetSpans()
		if len(spans) != 3 {
			t.Fatalf("there are %d spans, want two waits and the work", len(spans))
		}
		for i, want := range []struct {
			outcome, status string
			took            time.Duration
			holders         int
		}{{"not_acquired", "Error", time.Millisecond, 1}, {"acquired", "Unset", time.Second, 0}} {
			span := spans[i]
			if span.Name != "pglock wait" || span.Parent.SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("the span is %q with parent %s", span.Name, span.Parent.SpanID())
			}
			attributes := text(attribute.NewSet(span.Attributes...))
			if !strings.Contains(attributes, "key=invoice:42") || !strings.Contains(attributes, "outcome="+want.outcome) ||
				span.Status.Code.String() != want.status {
				t.Errorf("the span has status %s and %s, want %s", span.Status.Code, attributes, want.outcome)
			}
			if took := span.EndTime.Sub(span.StartTime); took != want.took {
				t.Errorf("the span lasts %v", took)
			}
			holders := 0
			for _, event := range span.Events {
				if event.Name == "pglock.holder" && slices.Contains(event.Attributes, attribute.String("pglock.holder.token", theirs.Token())) {
					holders++
				}
			}
			if holders != want.holders {
				t.Errorf("the holder of the %s wait is in %d events: %+v", want.outcome, holders, span.Events)
			}
		}
	})
}

func TestOptionsThatAreWrongAreErrors(t *testing.T) {
	for name, opt := range map[string]otel.Option{
		"nil": nil, "no label": otel.WithKeyLabel(nil),
		"no meters": otel.WithMeterProvider(nil), "no tracers": otel.WithTracerProvider(nil),
	} {
		if _, err := otel.New(opt); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func label(key pglock.Key) string {
	if strings.HasPrefix(key.Name(), "invoice:") {
		return "invoice:{id}"
	}
	return "other"
}
