package exporter_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/exporter"
	"github.com/pglock-toolkit/pglock/monitor"
)

// states returns outputs of scrapes: of a server with everything that has a label, and of one that does not answer.
func states() map[string]func(context.Context) (*monitor.Snapshot, error) {
	now := time.Now()
	since, age := now.Add(-90*time.Second), int64(12)
	holder := monitor.Holder{Session: monitor.Session{PID: 1, XminAge: &age}}
	prepared := monitor.Holder{Session: monitor.Session{GID: "it's"}}
	waiter := monitor.Waiter{WaitingSince: &since, Session: monitor.Session{PID: 2}}
	var locks []monitor.Lock
	for _, key := range []string{"invoice:42", "a \"quoted\" \\ name\nwith lines", "日本語/注文", "not UTF-8 \xff"} {
		locks = append(locks, monitor.Lock{Key: key, Database: "shop", Holders: []monitor.Holder{holder, prepared},
			Waiters: []monitor.Waiter{waiter}})
	}
	locks = append(locks, monitor.Lock{Key: "@7", Database: "other", Holders: []monitor.Holder{holder}})
	return map[string]func(context.Context) (*monitor.Snapshot, error){
		"full": func(context.Context) (*monitor.Snapshot, error) {
			return &monitor.Snapshot{TakenAt: now, Database: "shop", ServerVersion: "15.4 (\"Debian\")", Locks: locks,
				Cycles: []monitor.Cycle{{Certain: true}}, Capacity: monitor.Capacity{Nominal: 6400, Used: 12}}, nil
		},
		"empty": func(context.Context) (*monitor.Snapshot, error) { return &monitor.Snapshot{TakenAt: now}, nil },
		"down":  func(context.Context) (*monitor.Snapshot, error) { return nil, errors.New("no answer") },
	}
}

func TestPrometheusReadsEveryMetricAndHasNothingToSay(t *testing.T) {
	for name, take := range states() {
		handler := exporter.New(exporter.Options{Interval: time.Hour, Version: "v1"})
		handler.Note(take(t.Context()))
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := response.Body.Bytes()

		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, text)
		}
		if len(families) < 4 {
			t.Errorf("%s: there are %d metrics", name, len(families))
		}
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s: %s", name, problem.Metric, problem.Text)
		}
	}
}
