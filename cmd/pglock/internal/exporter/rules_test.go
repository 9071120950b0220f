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

	"github.com/pglock-toolkit/pglock/monitor"
)

// A rule about a metric that does not exist never fires.
func TestRulesAreAboutMetricsThatExist(t *testing.T) {
	now := time.Now()
	since := now.Add(-10 * time.Minute)
	holder := monitor.Session{PID: 1, Database: "shop", State: "idle in transaction", StateSince: &since, TransactionSince: &since}
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", Locks: []monitor.Lock{{Key: "@1", Database: "shop",
		Holders: []monitor.Holder{{Session: holder}},
		Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 2}, BlockedBy: []monitor.Blocker{{PID: 1, Kind: monitor.BlockHard}}}}}}}
	values := map[string]float64{}
	for _, f := range families(state{snapshot: s}, newKeyLabels(5), "v1") {
		for _, sample := range f.samples {
			values[f.name] = max(values[f.name], sample.value)
		}
		if _, ok := values[f.name]; !ok {
			values[f.name] = 0
		}
	}
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
	for _, f := range byDatabase(s) {
		if f.name == "pglock_oldest_wait_seconds" && f.samples[0].value != 0 || f.name == "pglock_waiters" && f.samples[0].value != 1 {
			t.Errorf("%s is %v", f.name, f.samples[0].value)
		}
	}
}
