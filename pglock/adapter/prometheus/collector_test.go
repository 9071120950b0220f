package prometheus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pglock-toolkit/pglock/internal/fleet"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
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

func TestARegistryShowsWhatAFleetDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := prometheus.New(prometheus.WithKeyTemplates("invoice:{id}"))
		must.Succeed(t, err)
		fleet.Work(t, c.Observe)
		text := scrape(t, c)
		want(t, text,
			`pglock_client_held{key="invoice:{id}",use="lock"} 1`,
			`pglock_client_held{key="other",use="lock"} 0`,
			`pglock_client_held{key="other",use="permit"} 0`,
			`pglock_client_waiting{key="invoice:{id}",use="lock"} 0`,
			`pglock_client_waiting{key="other",use="permit"} 0`,
			`pglock_client_acquired_total{how="free",key="invoice:{id}",use="lock"} 1`,
			`pglock_client_acquired_total{how="queued",key="invoice:{id}",use="lock"} 1`,
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
	})
}

func TestWithoutTemplatesThereIsNoLabelForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := prometheus.New()
		must.Succeed(t, err)
		fleet.Work(t, c.Observe)
		want(t, scrape(t, c), `pglock_client_held{use="lock"} 1`, `pglock_client_refused_total{use="lock"} 1`)
		problems, err := testutil.CollectAndLint(c)
		must.Succeed(t, err)
		for _, problem := range problems {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	})
}

func TestOptionsThatAreWrongAreErrors(t *testing.T) {
	for name, opt := range map[string]prometheus.Option{
		"nil": nil, "no template": prometheus.WithKeyTemplates(), "an empty template": prometheus.WithKeyTemplates(""),
	} {
		if _, err := prometheus.New(opt); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
