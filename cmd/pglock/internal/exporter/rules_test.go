package exporter

import (
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
