package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/supervise"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const alerts = "../../../docs/pglock-alerts.yml"

// server is a Prometheus.
type server struct {
	*testing.T
	address string
	process *supervise.Process
}

// newServer starts a Prometheus on loopback that scrapes the targets, with the alerts.
func newServer(t *testing.T, targets []string) *server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("there is no Prometheus: install it (apt-get install prometheus, brew install prometheus): ", err)
	}
	supervisor, err := supervise.New("pglock-prometheus-")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, supervisor.Close()) })
	rules, err := os.ReadFile(alerts)
	must.Succeed(t, err)
	_, err = supervisor.WriteFile("alerts.yml", string(rules))
	must.Succeed(t, err)
	_, err = supervisor.WriteFile("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: %[1]s, evaluation_interval: %[1]s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: billing
    static_configs: [{targets: ["%s"]}]
`, interval, strings.Join(targets, `", "`)))
	must.Succeed(t, err)
	port, err := supervise.FreePort()
	must.Succeed(t, err)
	s := &server{T: t, address: fmt.Sprintf("127.0.0.1:%d", port)}
	s.process, err = supervisor.Start(supervisor.Command(context.Background(), program,
		"--config.file="+supervisor.Path("prometheus.yml"), "--storage.tsdb.path="+supervisor.Path("data"),
		"--web.listen-address="+s.address), supervisor.Path("log"))
	must.Succeed(t, err)
	return s
}

var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get reads an answer of Prometheus's API, and reports whether there was one.
func (s *server) get(path string, parameters url.Values, data any) bool {
	s.Helper()
	if s.process.Ended() {
		s.Fatalf("Prometheus has ended: %v\n%s", s.process.Err(), s.process.Said())
	}
	response, err := httpClient.Get("http://" + s.address + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return false // it is starting
	}
	defer func() { must.Succeed(s.T, response.Body.Close()) }()
	answer := struct{ Data any }{data}
	if response.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		s.Fatalf("GET %s %v: %s, %v", path, parameters, response.Status, err)
	}
	return true
}

// values returns the values of all series that an expression has now, without the undefined ones.
func (s *server) values(expression string) (values []float64) {
	s.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	s.get("query", url.Values{"query": {expression}}, &data)
	for _, series := range data.Result {
		value, err := strconv.ParseFloat(series.Value[1].(string), 64)
		must.Succeed(s.T, err)
		if !math.IsNaN(value) {
			values = append(values, value)
		}
	}
	return values
}

// await waits until an expression has a value.
func (s *server) await(expression string) {
	s.Helper()
	testenv.WaitUntil(s, "there is a value of "+expression, func() bool { return len(s.values(expression)) > 0 })
}

// alerts returns the states of the alerts by name.
func (s *server) alerts() map[string]string {
	s.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	states := map[string]string{}
	s.get("rules", nil, &data)
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			states[rule.Name] = rule.State
			if rule.Health == "err" {
				s.Errorf("%s: %s", rule.Name, rule.LastError)
			}
		}
	}
	return states
}
