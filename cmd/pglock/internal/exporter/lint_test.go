package exporter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// The parser returns names unchanged, except for bytes that are not UTF-8. Names that differ only in such bytes share a
// series, since the parser refuses duplicates.
func TestPrometheusReadsHostileNamesBack(t *testing.T) {
	now := time.Now()
	const evil = "a\"}\n# HELP x \\ \\n \x1b[31m\x00\u202e{} 1"
	s := &monitor.Snapshot{TakenAt: now, Database: evil, ServerVersion: evil}
	for i, name := range []string{evil, "bad \xff", "bad \xfe", "", "other"} {
		s.Locks = append(s.Locks, monitor.Lock{Key: name, Objsubid: 1, Number: int64(i+1) / 2, Database: name, Holders: []monitor.Holder{{Session: monitor.Session{
			PID: 1, Database: name, State: "idle in transaction", StateSince: &now}}}, Waiters: []monitor.Waiter{
			{Session: monitor.Session{PID: 2}, BlockedBy: []monitor.Blocker{{PID: 1, Kind: "hard"}}}}})
	}
	handler := exporter.New(exporter.Options{Interval: time.Hour, Version: evil})
	handler.Note(s, nil)
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	waiters := map[string]float64{}
	for name, family := range families {
		seen := map[string]bool{}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			series := fmt.Sprint(labels)
			if seen[series] {
				t.Errorf("%s%q is there twice", name, series)
			}
			seen[series] = true
			if name == "pglock_key_waiters" {
				waiters[labels["database"]] += metric.GetGauge().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{evil: 1, "bad \uFFFD": 2, "": 1, "other": 1} {
		if waiters[name] != want {
			t.Errorf("%v sessions wait for %q, want %v", waiters[name], name, want)
		}
	}
}
