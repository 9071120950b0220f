package prometheus_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/prometheus"
)

// scrape returns what a Prometheus server would read from a registry.
func scrape(t *testing.T, c client.Collector) string {
	t.Helper()
	registry := client.NewPedanticRegistry()
	must.Succeed(t, registry.Register(c))
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(response.Result().Body)
	must.Succeed(t, err)
	return string(text)
}

// want fails the test unless each line is in the text.
func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, text)
		}
	}
}

// hear lets an Observer hear of a lock that is waited for, one that is lost, one that is still held at the end, a permit, locks of
// transactions, and runs of a job.
func hear(ctx context.Context, observe pglock.Observer) {
	lock := pglock.Event{Keys: []pglock.Key{pglock.NewKey("invoice:42")}}
	report := pglock.Event{Keys: []pglock.Key{pglock.NewKey("report")}}
	permit := pglock.Event{Keys: []pglock.Key{pglock.NewKey("api")}, Use: pglock.Use{Kind: pglock.UsePermit, Key: pglock.NewKey("api")}}
	run := pglock.Event{Use: pglock.Use{Kind: pglock.UseTick, Key: pglock.NewKey("invoice:42")}}
	say := func(e pglock.Event, what pglock.EventType, seconds int, err error) {
		e.Type, e.Took, e.Err = what, time.Duration(seconds)*time.Second, err
		observe(ctx, e)
	}
	try := lock
	try.Try = true
	say(lock, pglock.EventAcquired, 0, nil)
	say(try, pglock.EventFailed, 0, pglock.ErrNotAcquired)
	for _, wait := range []struct {
		of      pglock.Event
		seconds int
		err     error
	}{{lock, 2, pglock.ErrNotAcquired}, {lock, 4, nil}, {permit, 1, pglock.ErrNotAcquired}} {
		say(wait.of, pglock.EventWaitStarted, 0, nil)
		say(wait.of, pglock.EventWaitEnded, wait.seconds, wait.err)
		if wait.err != nil {
			say(wait.of, pglock.EventFailed, wait.seconds, wait.err)
		}
	}
	say(lock, pglock.EventAcquired, 4, nil)
	say(lock, pglock.EventReleased, 7, nil)
	for _, ended := range []pglock.Event{report, permit} {
		say(ended, pglock.EventAcquired, 0, nil)
	}
	say(report, pglock.EventLost, 3, &pglock.LostError{Reason: pglock.LostSession})
	say(permit, pglock.EventReleased, 1, nil)
	say(lock, pglock.EventTxLocked, 0, nil)
	say(permit, pglock.EventTxLocked, 1, nil)
	say(run, pglock.EventRecorded, 5, nil)
	say(run, pglock.EventRecorded, 0, pglock.ErrDone)
}

func TestARegistryShowsWhatTheObserverHears(t *testing.T) {
	c, err := prometheus.New(prometheus.WithKeyLabel(label))
	must.Succeed(t, err)
	hear(t.Context(), c.Observe)
	text := scrape(t, c)
	want(t, text,
		`pglock_client_held{key="invoice:{id}",use="lock"} 1`,
		`pglock_client_held{key="other",use="lock"} 0`,
		`pglock_client_held{key="other",use="permit"} 0`,
		`pglock_client_waiting{key="invoice:{id}",use="lock"} 0`,
		`pglock_client_waiting{key="other",use="permit"} 0`,
		`pglock_client_acquired_total{key="invoice:{id}",use="lock"} 2`,
		`pglock_client_refused_total{key="invoice:{id}",use="lock"} 1`,
		`pglock_client_failed_total{key="invoice:{id}",outcome="not_acquired",use="lock"} 1`,
		`pglock_client_failed_total{key="other",outcome="not_acquired",use="permit"} 1`,
		`pglock_client_lost_total{key="other",reason="session",use="lock"} 1`,
		// An alert sees no increase in a counter that appears with its first event.
		`pglock_client_lost_total{key="invoice:{id}",reason="lease",use="lock"} 0`,
		`pglock_client_failed_total{key="invoice:{id}",outcome="too_many",use="lock"} 0`,
		`pglock_client_wait_seconds_count{key="invoice:{id}",outcome="acquired",use="lock"} 1`,
		`pglock_client_wait_seconds_sum{key="invoice:{id}",outcome="acquired",use="lock"} 4`,
		`pglock_client_wait_seconds_sum{key="invoice:{id}",outcome="not_acquired",use="lock"} 2`,
		`pglock_client_wait_seconds_sum{key="other",outcome="not_acquired",use="permit"} 1`,
		`pglock_client_hold_seconds_sum{key="invoice:{id}",use="lock"} 7`,
		`pglock_client_hold_seconds_bucket{key="invoice:{id}",use="lock",le="5"} 0`,
		`pglock_client_hold_seconds_bucket{key="invoice:{id}",use="lock",le="10"} 1`,
		`pglock_client_tx_lock_seconds_count{key="invoice:{id}",outcome="acquired",use="lock"} 1`,
		`pglock_client_tx_lock_seconds_sum{key="other",outcome="acquired",use="permit"} 1`,
		`pglock_client_record_seconds_sum{key="invoice:{id}",outcome="acquired",use="tick"} 5`,
		`pglock_client_record_seconds_count{key="invoice:{id}",outcome="not_acquired",use="tick"} 1`,
	)
	if strings.Contains(text, "42") {
		t.Errorf("the name of a lock is in\n%s", text)
	}
}

func TestWithoutTemplatesThereIsNoLabelForKeys(t *testing.T) {
	c, err := prometheus.New()
	must.Succeed(t, err)
	hear(t.Context(), c.Observe)
	want(t, scrape(t, c), `pglock_client_held{use="lock"} 1`, `pglock_client_refused_total{use="lock"} 1`)
	problems, err := testutil.CollectAndLint(c)
	must.Succeed(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestOptionsThatAreWrongAreErrors(t *testing.T) {
	for name, opt := range map[string]prometheus.Option{
		"nil": nil, "no label": prometheus.WithKeyLabel(nil),
	} {
		if _, err := prometheus.New(opt); err == nil {
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
