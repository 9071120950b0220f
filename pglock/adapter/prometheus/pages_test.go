package prometheus_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock/adapter/prometheus"
)

// All metrics that the dashboard, the alerts and the page name exist, and the page names all metrics.
func TestTheDashboardTheAlertsAndThePageNameMetricsThatExist(t *testing.T) {
	c, err := prometheus.New()
	must.Succeed(t, err)
	descriptions := make(chan *client.Desc, 100)
	c.Describe(descriptions)
	close(descriptions)
	exists := map[string]bool{}
	name, asked := regexp.MustCompile(`fqName: "(\w+)"`), regexp.MustCompile(`\bpglock_client_\w+`)
	for d := range descriptions {
		exists[name.FindStringSubmatch(d.String())[1]] = true
	}
	const page = "../../../docs/operating.md"
	for _, file := range []string{"../../../cmd/pglock/grafana/pglock-client.json", "../../../docs/pglock-alerts.yml", page} {
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
		named := map[string]bool{}
		for _, metric := range asked.FindAllString(string(text), -1) {
			metric = strings.TrimSuffix(metric, "_bucket")
			named[metric] = true
			if !exists[metric] {
				t.Errorf("%s asks for %s, which does not exist", file, metric)
			}
		}
		if len(named) < 4 {
			t.Errorf("%s names %d metrics", file, len(named))
		}
		for metric := range exists {
			if file == page && !named[metric] {
				t.Errorf("%s does not name %s", file, metric)
			}
		}
	}
}
