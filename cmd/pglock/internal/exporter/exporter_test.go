package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/grafana"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/exporter"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// serve serves metrics until the test ends, and returns their address. Each scrape takes a snapshot first.
func serve(t testing.TB, take func(context.Context) (*monitor.Snapshot, error)) (url string) {
	t.Helper()
	e := exporter.New(exporter.Options{Interval: time.Hour, Version: "v1"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.Note(take(r.Context()))
		e.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func get(t testing.TB, url string) (status int, header http.Header, body string) {
	t.Helper()
	response, err := http.Get(url)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, response.Body.Close()) }()
	content, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	http.DefaultClient.CloseIdleConnections()
	return response.StatusCode, response.Header, string(content)
}

// scrape returns the series of a scrape.
func scrape(t testing.TB, url string) map[string]string {
	t.Helper()
	status, _, body := get(t, url+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("the status is %d: %s", status, body)
	}
	series := map[string]string{}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := cutLast(strings.TrimSuffix(line, "\n"), " ")
		if _, twice := series[name]; twice || !found {
			t.Errorf("the line is malformed or there twice: %s", line)
		}
		series[name] = value
	}
	return series
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

func want(t testing.TB, series map[string]string, expected map[string]string) {
	t.Helper()
	for name, value := range expected {
		if got, found := series[name]; got != value {
			t.Errorf("%s is %q (%v), want %s", name, got, found, value)
		}
	}
}

// on takes snapshots of a database.
func on(t testing.TB, db *testenv.DB) func(context.Context) (*monitor.Snapshot, error) {
	pool := db.Pool(t)
	return func(ctx context.Context) (*monitor.Snapshot, error) { return monitor.Take(ctx, pool) }
}

// wait makes a session wait for a lock until the test ends.
func wait(t testing.TB, db *testenv.DB, statement string) {
	t.Helper()
	db.Queue(t, db.Connect(t), statement)
}

func hold(t testing.TB, db *testenv.DB, statement string) {
	t.Helper()
	_, err := db.Connect(t).Exec(t.Context(), statement)
	must.Succeed(t, err)
}

func TestAScrapeShowsWhatTheServerSays(t *testing.T) {
	db := testenv.Database(t)
	hold(t, db, "SELECT pg_advisory_lock(7), pg_advisory_lock(8), pg_advisory_lock(9)")
	hold(t, db, "BEGIN; SELECT txid_current(), pg_advisory_lock_shared(10)")
	hold(t, db, "SELECT pg_advisory_lock_shared(10)")
	wait(t, db, "SELECT pg_advisory_lock(7)")
	wait(t, db, "SELECT pg_advisory_lock_shared(7)")
	wait(t, db, "SELECT pg_advisory_lock(10)")
	url := serve(t, on(t, db))
	series := scrape(t, url)
	of := func(name, key string) string {
		if key == "" {
			return fmt.Sprintf("%s{database=%q}", name, db.Name())
		}
		return fmt.Sprintf("%s{database=%q,key=%q}", name, db.Name(), key)
	}
	want(t, series, map[string]string{
		"pglock_up": "1", "pglock_snapshots_total": "1", "pglock_snapshot_errors_total": "0",
		of("pglock_locks", ""):                     "4",
		of("pglock_holders", ""):                   "5",
		of("pglock_waiters", ""):                   "3",
		of("pglock_prepared_holders", ""):          "0",
		of("pglock_key_waiters", "@7"):             "2",
		of("pglock_key_holders", "@7"):             "1",
		of("pglock_key_waiters", "@10"):            "1",
		of("pglock_key_holders", "@10"):            "2",
		of("pglock_key_waiters", "other"):          "0",
		of("pglock_key_holders", "other"):          "2",
		`pglock_deadlocks{certainty="certain"}`:    "0",
		`pglock_exporter_build_info{version="v1"}`: "1",
		// The holder of 7 is in the way of one, and then of another.
		`pglock_action_frees{kind="terminate"}`:         "1",
		`pglock_action_frees_at_most{kind="terminate"}`: "2",
	})
	for _, name := range []string{"pglock_lock_table_entries",
		"pglock_lock_table_nominal_entries", "pglock_lock_table_advisory_entries", "pglock_snapshot_timestamp_seconds",
		"pglock_oldest_snapshot_transactions", of("pglock_key_oldest_wait_seconds", "@7"),
		of("pglock_oldest_wait_seconds", "")} {
		if value := series[name]; value == "" || value == "0" || strings.HasPrefix(value, "-") {
			t.Errorf("%s is %q", name, value)
		}
	}
}

// A server that has not answered for three intervals is down, also if it is still being asked.
func TestAnOldSnapshotIsNotThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := exporter.New(exporter.Options{Interval: 5 * time.Second})
		e.Note(&monitor.Snapshot{}, nil)
		up := func() bool {
			response := httptest.NewRecorder()
			e.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return strings.Contains(response.Body.String(), "pglock_up 1\n")
		}
		time.Sleep(15 * time.Second)
		atFirst := up()
		time.Sleep(time.Millisecond)
		if later := up(); !atFirst || later {
			t.Errorf("after three intervals it is up: %v, and later: %v", atFirst, later)
		}
	})
}

func TestPages(t *testing.T) {
	url := serve(t, func(context.Context) (*monitor.Snapshot, error) { return nil, errors.New("no answer") })
	status, header, _ := get(t, url+"/metrics")
	if status != http.StatusOK || header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8; escaping=underscores" {
		t.Errorf("the metrics come with %d and %v", status, header)
	}
	if status, _, body := get(t, url+"/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("the health is %d %q", status, body)
	}
	response, err := http.Post(url+"/metrics", "text/plain", nil)
	must.Succeed(t, err)
	must.Succeed(t, response.Body.Close())
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST has status %d", response.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Every metric in the dashboard exists, and every metric is in the dashboard.
func TestTheDashboardKnowsTheMetrics(t *testing.T) {
	db := testenv.Installed(t)
	hold(t, db, "SELECT pg_advisory_lock(7)")
	wait(t, db, "SELECT pg_advisory_lock(7)")
	take := on(t, db)
	url := serve(t, func(ctx context.Context) (*monitor.Snapshot, error) {
		s, err := take(ctx)
		if err == nil {
			s.Locks = append(s.Locks, contendedRow(s.TakenAt))
		}
		return s, err
	})
	scrape(t, url)
	_, _, body := get(t, url+"/metrics")
	var exported []string
	for _, match := range regexp.MustCompile(`(?m)^(pglock_\w+)`).FindAllString(body, -1) {
		if !slices.Contains(exported, match) {
			exported = append(exported, match)
		}
	}
	asked := regexp.MustCompile(`pglock_\w+`).FindAllString(string(grafana.Dashboard), -1)
	for _, name := range asked {
		if !slices.Contains(exported, name) {
			t.Errorf("the dashboard asks for %s, which is not exported", name)
		}
	}
	for _, name := range exported {
		if !slices.Contains(asked, name) {
			t.Errorf("%s is not in the dashboard", name)
		}
	}
}
