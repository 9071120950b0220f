package exporter

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// largest returns the largest value of each metric.
func largest(t *testing.T, s *monitor.Snapshot) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{state: state{snapshot: s}, keys: newKeyLabels(5), rowKeys: newKeyLabels(5)})
	families, err := registry.Gather()
	must.Succeed(t, err)
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
		Waiters: []monitor.Waiter{{Session: monitor.Session{PID: 2}, BlockedBy: []monitor.Blocker{{PID: 1, Kind: "hard"}}}}}}}
	values := largest(t, s)
	for _, name := range []string{"pglock_oldest_holder_seconds", "pglock_idle_blocker_seconds"} {
		if values[name] != 600 {
			t.Errorf("%s is %v, want 600", name, values[name])
		}
	}
	alerts, text := 0, string(Rules)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "expr: ") {
			alerts++
		}
		for _, metric := range regexp.MustCompile(`pglock_\w+`).FindAllString(line, -1) {
			if _, ok := values[metric]; !ok {
				t.Errorf("there is no metric %s", metric)
			}
		}
	}
	if alerts != strings.Count(text, "- alert: ") || alerts < 6 {
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
	must.Succeed(t, err)
	for name, text := range map[string][]byte{"rules.yml": Rules, "rules_test.yml": tests} {
		must.Succeed(t, os.WriteFile(filepath.Join(directory, name), text, 0o600))
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

// A server with an election, a semaphore and a job that runs, each for an hour, has waiters, but nothing to alert about.
func TestExpectedWaitsAndTheirHoldersAreNoReasonForAnAlert(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Hour)
	for _, kind := range []string{"leader", "semaphore", "tick"} {
		s := &monitor.Snapshot{TakenAt: now, Database: "shop", Locks: []monitor.Lock{{Key: "@1", Database: "shop", Kind: kind,
			Holders: []monitor.Holder{{Session: monitor.Session{PID: 1, Since: &since}}},
			Waiters: []monitor.Waiter{{Expected: true, WaitingSince: &since, Session: monitor.Session{PID: 2}}}}}}
		values := largest(t, s)
		for name, want := range map[string]float64{"pglock_oldest_wait_seconds": 0, "pglock_oldest_holder_seconds": 0,
			"pglock_key_oldest_wait_seconds": 0, "pglock_key_oldest_holder_seconds": 0, "pglock_waiters": 1, "pglock_key_waiters": 1} {
			if got, there := values[name]; got != want || !there {
				t.Errorf("%s: %s is %v", kind, name, got)
			}
		}
	}
}

// Sessions that wait for a table count, whether their chain has an advisory lock or not.
func TestWaitsForOtherLocksAreCounted(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Minute)
	s := &monitor.Snapshot{TakenAt: now, Database: "shop", WaitsElsewhere: 30, OtherWaits: []monitor.OtherWait{
		{Waiter: monitor.Waiter{WaitingSince: &since, Session: monitor.Session{PID: 2}}}}}
	values := largest(t, s)
	if values["pglock_other_waiters"] != 31 || values["pglock_oldest_other_wait_seconds"] != 60 {
		t.Errorf("the metrics are %v", values)
	}
}

// A 0 would say that nothing waits long, and that no session blocks others while it is idle.
func TestWhatWasNotLookedAtIsMissingAndNotZero(t *testing.T) {
	looked := []string{"pglock_oldest_other_wait_seconds", "pglock_idle_blocker_seconds"}
	for _, test := range []struct {
		s       monitor.Snapshot
		missing []string
	}{
		{monitor.Snapshot{}, nil},
		{monitor.Snapshot{WaitsElsewhere: 30}, looked},
		{monitor.Snapshot{BlockersMissing: "why"}, looked[1:]},
	} {
		test.s.TakenAt, test.s.Database = time.Now(), "shop"
		values := largest(t, &test.s)
		for _, name := range looked {
			if _, there := values[name]; there == slices.Contains(test.missing, name) {
				t.Errorf("%d waits elsewhere, blockers missing %q: %s is there: %t", test.s.WaitsElsewhere, test.s.BlockersMissing, name, there)
			}
		}
	}
}

// The series of a key do not change when its name becomes known or is forgotten; the name is a label of one series only.
func TestTheSeriesOfAKeyDoNotDependOnItsName(t *testing.T) {
	labels := newKeyLabels(5)
	lock := monitor.Lock{Key: "@-1734548259", Objsubid: 1, Number: -1734548259, Database: "shop", Waiters: make([]monitor.Waiter, 1)}
	at := keyLabel{"shop", "@-1734548259"}
	for _, name := range []string{"@-1734548259", "sync", "@-1734548259"} {
		lock.Key = name
		shown := measure(labels, &monitor.Snapshot{TakenAt: time.Now(), Locks: []monitor.Lock{lock}})
		if c, there := shown[at]; len(shown) != 1 || !there || c.waiters != 1 || c.name != name {
			t.Errorf("named %s: %v", name, shown)
		}
	}
}
