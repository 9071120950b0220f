package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// metricsAddress is where an exporter says that its metrics are.
func metricsAddress(p *process) string {
	p.t.Helper()
	p.waitForOutput("/metrics")
	return regexp.MustCompile(`http://\S+/metrics`).FindString(p.stderr.String())
}

func fetch(t testing.TB, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must.Succeed(t, err)
	defer func() {
		must.Succeed(t, response.Body.Close())
		http.DefaultClient.CloseIdleConnections()
	}()
	text, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return string(text)
}

func TestExporterShowsLocksByName(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	execute(t, db, "SELECT pglock.register('invoice:42')")
	hold(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	queue(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := on(t, db, "exporter", "--listen", "127.0.0.1:0", "--min-interval", "0").start()
		wantText(t, fetch(t, metricsAddress(p)), "pglock_up 1\n",
			fmt.Sprintf("pglock_key_waiters{database=%q,key=\"%v\"} 1\n", db.Name(), pglock.Int64Key(pglock.NewKey("invoice:42").Int64())),
			`name="invoice:42"} 1`)
		p.signal(signal)
		wantCode(t, p.end(), 0)
	}
}

func TestExporterTheHelpOfTheExporterListsTheMetrics(t *testing.T) {
	t.Parallel()
	p := on(t, testenv.Database(t), "exporter", "--listen", "127.0.0.1:0").start()
	exported := regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(fetch(t, metricsAddress(p)), -1)
	p.signal(syscall.SIGTERM)
	wantCode(t, p.end(), 0)
	help := command(t, nil, "exporter", "--help").run().stdout
	for _, metric := range exported {
		wantText(t, help, metric[1])
	}
	if len(exported) < 10 {
		t.Errorf("there are only %d metrics", len(exported))
	}
}

func TestExporterSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	p := on(t, db, "exporter", "--listen", "127.0.0.1:0", "--min-interval", "0").start()
	address := metricsAddress(p)
	wantText(t, fetch(t, address), "pglock_up 1\n")
	must.Succeed(t, server.Down(t.Context(), pgserver.Immediate))
	wantText(t, fetch(t, address), "pglock_up 0\n", "pglock_snapshot_errors_total 1\n")
	must.Succeed(t, server.Up(t.Context()))
	testenv.WaitUntil(t, "the server is back", func() bool {
		return regexp.MustCompile(`(?m)^pglock_up 1$`).MatchString(fetch(t, address))
	})
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "no snapshot", "the server answers again")
}

func TestExporterBeginsWithoutAServer(t *testing.T) {
	t.Parallel()
	dsn := []string{"DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/x"}
	p := command(t, dsn, "exporter", "--listen", "127.0.0.1:0").start()
	wantText(t, fetch(t, metricsAddress(p)), "pglock_up 0\n")
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantNoSecret(t, r)
}

func TestExporterMistakesOfTheExporter(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, taken.Close()) })
	dsn := []string{"DATABASE_URL=postgres://u@127.0.0.1:1/x"}
	r := command(t, dsn, "exporter", "--listen", taken.Addr().String()).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "address already in use")
	for _, args := range [][]string{{"--listen", "9187"}, {"--max-keys", "-1"}, {"--max-keys", "10001"},
		{"--min-interval", "x"}, {"now", "then"}} {
		wantCode(t, command(t, dsn, append([]string{"exporter"}, args...)...).run(), 64)
	}
}

func TestExporterTheDashboardIsWritten(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "exporter", "--dashboard").run()
	wantCode(t, r, 0)
	var dashboard struct {
		Title  string
		Panels []struct{ Title string }
	}
	must.Succeed(t, json.Unmarshal([]byte(r.stdout), &dashboard))
	if dashboard.Title == "" || len(dashboard.Panels) < 10 {
		t.Errorf("the dashboard is %+v", dashboard)
	}
}

func TestExporterTheRulesAreWritten(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "exporter", "--rules").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, `up{job="pglock"} == 0`, "pglock_oldest_wait_seconds > 60\n", "thresholds")
}
