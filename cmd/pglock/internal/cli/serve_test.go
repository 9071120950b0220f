package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

var (
	printedURL     = regexp.MustCompile(`open (http://127\.0\.0\.1:\d+)/\?token=(\w+)`)
	printedMetrics = regexp.MustCompile(`metrics are at (http://\S+/metrics)`)
)

// serveOn serves a database, with a snapshot every 50 ms.
func serveOn(t *testing.T, db *testenv.DB) *process {
	t.Helper()
	return on(t, db, "serve", "--listen", "127.0.0.1:0", "--interval", "200ms").start()
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

// metrics scrapes until the metrics have a text.
func (p *process) metrics(text string) (all string) {
	p.t.Helper()
	p.waitForOutput("/metrics")
	url := printedMetrics.FindStringSubmatch(p.stderr.String())[1]
	testenv.WaitUntil(p.t, "the metrics have "+text, func() bool {
		all = fetch(p.t, url)
		return strings.Contains(all, text)
	})
	return all
}

// metricsBy asks for the metrics by a name that resolves to this machine, as a page of another site could, and returns the status.
func (p *process) metricsBy(name string) int {
	p.t.Helper()
	request, err := http.NewRequest(http.MethodGet, printedMetrics.FindStringSubmatch(p.stderr.String())[1], nil)
	must.Succeed(p.t, err)
	request.Host = name
	response, err := http.DefaultClient.Do(request)
	must.Succeed(p.t, err)
	must.Succeed(p.t, response.Body.Close())
	return response.StatusCode
}

func TestServeAnswersForeignNamesOnlyBeyondLoopback(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for address, want := range map[string]int{"127.0.0.1:0": http.StatusMisdirectedRequest, "0.0.0.0:0": http.StatusOK} {
		p := on(t, db, "serve", "--listen", address, "--insecure", "--host", "metrics.example").start()
		p.metrics("pglock_up 1\n")
		if got, added := p.metricsBy("evil.example"), p.metricsBy("metrics.example"); got != want || added != http.StatusOK {
			t.Errorf("on %s a foreign name is answered with %d, and one of --host with %d", address, got, added)
		}
	}
}

func TestServeShowsAPageAndMetrics(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	execute(t, db, "SELECT pglock.register('invoice:42')")
	hold(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	queue(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	p := serveOn(t, db)
	wantText(t, p.metrics("pglock_up 1\n"), `name="invoice:42"} 1`,
		fmt.Sprintf("pglock_key_waiters{database=%q,key=\"%v\"} 1\n", db.Name(), pglock.Int64Key(pglock.NewKey("invoice:42").Int64())))
	v := p.visit()
	if status, _ := v.get("/api/now"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	v.login("/")
	testenv.WaitUntil(t, "the page shows the wait", func() bool {
		_, text := v.get("/api/now")
		return strings.Contains(text, `"lock":{"key":"invoice:42"`) && strings.Contains(text, `"wait-began"`)
	})
	if _, text := v.get("/api/timeline?n=5"); !strings.Contains(text, `"seen":true`) {
		t.Errorf("timeline: %s", text)
	}
	p.signal(os.Interrupt)
	wantCode(t, p.end(), 0)
}

func TestServeThePageListsTheMetrics(t *testing.T) {
	t.Parallel()
	p := serveOn(t, testenv.Database(t))
	exported := regexp.MustCompile(`(?m)^# TYPE (pglock_\S+)`).FindAllStringSubmatch(p.metrics("pglock_up 1\n"), -1)
	p.signal(syscall.SIGTERM)
	wantCode(t, p.end(), 0)
	page := readFile(t, "../../../../docs/operating.md")
	for _, metric := range exported {
		if !strings.Contains(page, "`"+metric[1]+"`") {
			t.Errorf("the page does not list %s", metric[1])
		}
	}
	if len(exported) < 10 {
		t.Errorf("there are only %d metrics", len(exported))
	}
}

func TestServeSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	p := serveOn(t, testenv.On(t, server))
	p.metrics("pglock_up 1\n")
	must.Succeed(t, server.Down(context.WithoutCancel(t.Context()), pgserver.Immediate))
	p.metrics("pglock_up 0\n")
	must.Succeed(t, server.Up(t.Context()))
	p.metrics("pglock_up 1\n")
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "; trying again", "answers again")
}

func TestServeBeginsWithoutAServer(t *testing.T) {
	t.Parallel()
	p := command(t, []string{"DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/x"}, "serve", "--listen", "127.0.0.1:0").start()
	p.metrics("pglock_up 0\n")
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantNoSecret(t, r)
}

func TestServeMistakes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, taken.Close()) })
	dsn := []string{"DATABASE_URL=postgres://u@127.0.0.1:1/x"}
	r := command(t, dsn, "serve", "--listen", taken.Addr().String()).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "address already in use")
	for _, args := range [][]string{{"--listen", "9187"}, {"--interval", "0"}, {"--tls-cert", "x"}, {"--print", "x"}, {"now", "then"}} {
		wantCode(t, command(t, dsn, append([]string{"serve"}, args...)...).run(), 64)
	}
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:8080", "[::]:0"} {
		r := command(t, dsn, "serve", "--listen", address).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, "--insecure")
	}
}

func TestServePrintsTheDashboardAndTheRules(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "serve", "--print", "dashboard").run()
	wantCode(t, r, 0)
	var dashboard struct {
		Title  string
		Panels []struct{ Title string }
	}
	must.Succeed(t, json.Unmarshal([]byte(r.stdout), &dashboard))
	if dashboard.Title == "" || len(dashboard.Panels) < 10 {
		t.Errorf("the dashboard is %+v", dashboard)
	}
	r = command(t, nil, "serve", "--print", "rules").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, `up{job="pglock"} == 0`, "pglock_oldest_wait_seconds > 60\n", "thresholds")
}
