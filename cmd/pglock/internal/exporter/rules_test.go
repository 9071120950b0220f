package exporter

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/monitor"
)

// largest returns the largest value of each metric.
func largest(t *testing.T, s *monitor.Snapshot) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{state{snapshot: s}, newKeyLabels(5)})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values[family.GetName()] = max(values[family.GetName()], metric.GetGauge().GetValue())
		}
	}
	return values
}

// A rule about a metric that does not exist never fires.
func TestRulesAreAboutMetricsThatExist(t *testing.T) {
	now := time.Now()
	since := now.Add(-10 * time.Minute)
	holder := monitor.Session{PID: 1, Database: "shop", State: "idle in transaction", StateSince: &since, TransactionSince: &since}
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", Locks: []monitor.Lock{{Key: "@1", Database: "shop",
		Holders: []monitor.Holder{{Session: holder}},
		Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 2}, BlockedBy: []monitor.Blocker{{PID: 1, Kind: monitor.BlockHard}}}}}}}
	values := largest(t, s)
	for _, name := range []string{"pglock_oldest_holder_seconds", "pglock_idle_blocker_seconds"} {
		if values[name] != 600 {
			t.Errorf("%s is %v, want 600", name, values[name])
		}
	}
	alerts := 0
	for line := range strings.Lines(string(Rules)) {
		text, isExpression := strings.CutPrefix(strings.TrimSpace(line), "expr: ")
		if !isExpression {
			continue
		}
		alerts++
		for _, metric := range regexp.MustCompile(`pglock_\w+`).FindAllString(text, -1) {
			if _, ok := values[metric]; !ok {
				t.Errorf("there is no metric %s", metric)
			}
		}
	}
	if alerts != strings.Count(string(Rules), "- alert: ") || alerts < 6 {
		t.Errorf("there are %d expressions", alerts)
	}
}

// Each alert fires when it should, and only then: testdata/rules_test.yml says when.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool to try the alerts with; make prepare installs it (Debian's package prometheus)")
	}
	directory := t.TempDir()
	tests, err := os.ReadFile("testdata/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"rules.yml": Rules, "rules_test.yml": tests} {
		if err := os.WriteFile(filepath.Join(directory, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = directory
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, output)
		}
	}
	for line := range strings.Lines(string(Rules)) {
		if _, alert, found := strings.Cut(line, "- alert: "); found && !bytes.Contains(tests, []byte("alertname: "+strings.TrimSpace(alert)+"\n")) {
			t.Errorf("no test has %s fire", strings.TrimSpace(alert))
		}
	}
}

// Candidates of an election wait as long as there is a leader. That is no reason for an alert.
func TestCandidatesDoNotCountAsLongWaits(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Hour)
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", Locks: []monitor.Lock{{Key: "@1", Database: "shop", Kind: monitor.KindLeader,
		Holders: []monitor.Holder{{Session: monitor.Session{PID: 1}}},
		Waiters: []monitor.Waiter{{WaitingSince: &since, Session: monitor.Session{PID: 2}}}}}}
	values := largest(t, s)
	for name, want := range map[string]float64{"pglock_oldest_wait_seconds": 0, "pglock_waiters": 1} {
		if got, there := values[name]; got != want || !there {
			t.Errorf("%s is %v", name, got)
		}
	}
}
