package telemetry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// startWorker starts a process of the fleet, and returns the address of its metrics and a function that ends it.
func startWorker(t *testing.T, o orders) (metrics string, end func()) {
	t.Helper()
	text, err := json.Marshal(o)
	must.Succeed(t, err)
	program, err := os.Executable()
	must.Succeed(t, err)
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = append(os.Environ(), workerVariable+"="+string(text)), os.Stderr
	input, err := cmd.StdinPipe()
	must.Succeed(t, err)
	output, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		must.Succeed(t, input.Close())
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	t.Cleanup(end)
	metrics, err = bufio.NewReader(output).ReadString('\n')
	must.Succeed(t, err)
	return strings.TrimSpace(metrics), end
}

func TestPrometheusAndAReceiverOfOTLPSeeWhatAFleetDoes(t *testing.T) {
	postgres := testenv.NewServer(t, nil)
	db, otlp := testenv.On(t, postgres), newReceiver(t)
	var names, targets []string
	var ends []func()
	for i := range 3 {
		name := fmt.Sprintf("worker-%d", i+1)
		target, end := startWorker(t, orders{Name: name, Database: db.ConnString(), Receiver: otlp.address})
		names, targets, ends = append(names, name), append(targets, target), append(ends, end)
	}
	prometheus := newServer(t, targets)
	prometheus.await(`count(pglock_client_held{use="lock", key="other"} >= 1) == 3`) // the lock that each holds until it is lost

	must.Succeed(t, postgres.Down(t.Context(), pgserver.Immediate))
	prometheus.await(`count(sum by (instance) (pglock_client_failed_total{outcome="unavailable"}) > 0) == 3`)
	must.Succeed(t, postgres.Up(t.Context()))
	prometheus.await(`count(pglock_client_held{use="lock", key="other"} >= 1) == 3`)

	t.Run("the dashboard has values", func(t *testing.T) { prometheus.on(t).showDashboard() })
	t.Run("the alerts fire", func(t *testing.T) {
		prometheus := prometheus.on(t)
		want := map[string]string{
			"PglockLockLost": "firing", "PglockTooManyLocks": "firing", "PglockServerUnavailable": "pending", // for 5 minutes
			"PglockLongWaits": "inactive", "PglockLongHolds": "inactive",
		}
		for name, state := range want {
			testenv.WaitUntil(t, name+" is "+state, func() bool { return prometheus.alerts()[name] == state })
		}
		if got := prometheus.alerts(); len(got) != len(want) {
			t.Errorf("the alerts are %v", got)
		}
	})
	for _, end := range ends {
		end()
	}
	for _, name := range names {
		t.Run("OTLP of "+name, func(t *testing.T) { otlp.want(t, name) })
	}
}

func (s *server) on(t *testing.T) *server { return &server{t, s.address, s.process} }

// showDashboard asks for everything that the dashboard shows.
func (s *server) showDashboard() {
	text, err := os.ReadFile("../../../cmd/pglock/grafana/pglock-client.json")
	must.Succeed(s.T, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.Succeed(s.T, json.Unmarshal(text, &dashboard))
	var jobs []string
	s.get("label/job/values", url.Values{"match[]": {"pglock_client_acquired_total"}}, &jobs)
	if !slices.Equal(jobs, []string{"billing"}) {
		s.Errorf("the variable job can be %q", jobs)
	}
	asked := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked++
			s.await(strings.NewReplacer("$job", "billing", "$__rate_interval", "1m").Replace(target.Expr))
		}
	}
	if asked < 10 {
		s.Errorf("the dashboard asks for %d numbers", asked)
	}
}

// want fails the test unless a process has sent metrics of its work.
func (r *receiver) want(t *testing.T, process string) {
	t.Helper()
	const use, outcome = "pglock.use", "pglock.outcome"
	for _, some := range [][3]string{
		{"pglock.client.acquired", use, "lock"}, {"pglock.client.acquired", use, "permit"}, {"pglock.client.acquired", use, "leader"},
		{"pglock.client.acquired", "pglock.key", "invoice:{id}"}, {"pglock.client.refused", use, "lock"},
		{"pglock.client.failed", outcome, "not_acquired"}, {"pglock.client.failed", outcome, "unavailable"},
		{"pglock.client.failed", outcome, "too_many"}, {"pglock.client.lost", "pglock.reason", "session"},
		{"pglock.client.wait.duration", outcome, "acquired"}, {"pglock.client.hold.duration", use, "lock"},
		{"pglock.client.tx_lock.duration", outcome, "acquired"},
	} {
		if n, ok := r.number(process, some[0], some[1], some[2]); !ok || n < 1 {
			t.Errorf("%s with %s=%s: %d, %v", some[0], some[1], some[2], n, ok)
		}
	}
	for _, none := range []string{"pglock.client.held", "pglock.client.waiting"} {
		if n, ok := r.number(process, none, use, "lock"); !ok || n != 0 {
			t.Errorf("in the end %s is %d, %v", none, n, ok)
		}
	}
	if r.waits(process) == 0 {
		t.Error("there is no span of a wait with its holder under that of the work")
	}
}
