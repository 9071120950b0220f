package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// visitor asks for pages of pglock monitor --http as a browser does.
type visitor struct {
	t             testing.TB
	client        *http.Client
	address       string
	token, secret string
}

// visit returns a visitor of the pages whose address the process has printed, who has not logged in yet.
func (p *process) visit() *visitor {
	p.t.Helper()
	p.waitForOutput("token=")
	found := printedURL.FindStringSubmatch(p.stderr.String())
	jar, err := cookiejar.New(nil)
	must.Succeed(p.t, err)
	return &visitor{t: p.t, client: &http.Client{Jar: jar}, address: found[1], token: found[2]}
}

func (v *visitor) get(path string) (status int, text string) {
	v.t.Helper()
	request, err := http.NewRequest(http.MethodGet, v.address+path, nil)
	must.Succeed(v.t, err)
	request.Header.Set("Pglock-Secret", v.secret)
	r, err := v.client.Do(request)
	must.Succeed(v.t, err)
	if _, brought, ok := strings.Cut(r.Request.URL.Fragment, "secret="); ok {
		v.secret = brought
	}
	body, err := io.ReadAll(r.Body)
	must.Succeed(v.t, err)
	must.Succeed(v.t, r.Body.Close())
	return r.StatusCode, string(body)
}

// login fails the test unless the token opens a page.
func (v *visitor) login(path string) {
	v.t.Helper()
	if status, text := v.get(path + "?token=" + v.token); status != http.StatusOK {
		v.t.Fatalf("with the token %s is %d: %s", path, status, text)
	}
}

// listedServer is what the list of servers says of one.
type listedServer struct {
	Name, Label, Lost, Headline string
	At                          *string
	Waiting                     int
	Root                        *struct{ Application, Command string }
}

// servers returns the list, in its order.
func (v *visitor) servers() []listedServer {
	v.t.Helper()
	var list struct{ Servers []listedServer }
	status, text := v.get("/api/servers")
	if status != http.StatusOK || strings.Contains(text, "<") {
		v.t.Fatalf("the list is %d: %s", status, text)
	}
	must.Succeed(v.t, json.Unmarshal([]byte(text), &list))
	return list.Servers
}

// named returns what the list says of the server with a label, and its place.
func (v *visitor) named(label string) (listedServer, int) {
	v.t.Helper()
	for i, one := range v.servers() {
		if one.Label == label {
			return one, i
		}
	}
	v.t.Fatalf("the list has no server %q", label)
	return listedServer{}, 0
}

const hostileLabel = `<img src=x onerror=alert(1)>`

// One monitor shows three servers on its page. One of them is frozen from the beginning, and one, whose name is hostile,
// crashes and is back. Neither delays the list or the page of another.
func TestServersHaveAPageEach(t *testing.T) {
	t.Parallel()
	steady, crashing, frozen := testenv.NewServer(t, nil), testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	a, b, c := testenv.On(t, steady), testenv.On(t, crashing), testenv.On(t, frozen)
	must.Succeed(t, frozen.Freeze())
	t.Cleanup(func() { _ = frozen.Thaw() }) // it is done already, unless the test has failed
	holder := a.Connect(t)
	_, err := holder.Exec(t.Context(), "SET application_name = '"+hostileLabel+"'; SELECT pg_advisory_lock(42)")
	must.Succeed(t, err)
	queue(t, a, "SELECT pg_advisory_lock(42)")
	config := b.Config(t).ConnConfig
	services, folder := filepath.Join(t.TempDir(), "services"), filepath.Join(t.TempDir(), "recordings")
	must.Succeed(t, os.WriteFile(services, fmt.Appendf(nil, "[%s]\nhost=%s\nport=%d\nuser=%s\npassword=%s\ndbname=%s\n",
		hostileLabel, config.Host, config.Port, config.User, config.Password, b.Name()), 0o600))
	p := command(t, []string{"PGSERVICEFILE=" + services}, "monitor", "--http", "127.0.0.1:0", "--interval", "50ms", "--record", folder,
		"--service", hostileLabel, "--dsn", a.ConnString(), "--dsn", c.ConnString()).start()
	v := p.visit()
	wantText(t, p.stderr.String(), "3 servers: open http://")
	nameA := strings.NewReplacer(":", "_", "/", "_").Replace(labelOf(a))
	const nameB = "_img_src_x_onerror_alert_1_"
	for _, path := range []string{"/", "/api/servers", "/servers.js", "/server/" + nameA + "/", "/server/" + nameA + "/api/now", "/server/" + nameB + "/app.js"} {
		if status, _ := v.get(path); status != http.StatusUnauthorized {
			t.Errorf("without the token %s is %d", path, status)
		}
	}
	v.login("/")
	testenv.WaitUntil(t, "the list has the wait first, and the quiet server", func() bool {
		worst, at := v.named(labelOf(a))
		quiet, _ := v.named(hostileLabel)
		return at == 0 && worst.Waiting == 1 && worst.Name == nameA && worst.Root != nil && worst.Root.Application == hostileLabel &&
			regexp.MustCompile(`^pglock terminate .*--session \d+@`).MatchString(worst.Root.Command) &&
			quiet.Headline == "Nothing waits. No locks held." && quiet.Name == nameB
	})
	if silent, _ := v.named(labelOf(c)); silent.At != nil {
		t.Errorf("the frozen server: %+v", silent)
	}
	testenv.WaitUntil(t, "the page of the server shows the wait and the past", func() bool {
		_, now := v.get("/server/" + nameA + "/api/now")
		_, past := v.get("/server/" + nameA + "/api/timeline?n=5")
		return strings.Contains(now, `"lock":{"key":"@42"`) && strings.Contains(now, `"servers":3`) && strings.Contains(past, `"seen":true`)
	})
	must.Succeed(t, crashing.Down(t.Context(), pgserver.Immediate))
	testenv.WaitUntil(t, "the list says that the server is lost", func() bool {
		lost, at := v.named(hostileLabel)
		return lost.Lost != "" && lost.At != nil && at > 0
	})
	before, _ := v.named(labelOf(a))
	testenv.WaitUntil(t, "the other one goes on", func() bool {
		after, at := v.named(labelOf(a))
		return at == 0 && *after.At != *before.At
	})
	must.Succeed(t, crashing.Up(t.Context()))
	hold(t, b, "SELECT pg_advisory_lock(7)")
	testenv.WaitUntil(t, "the server is back", func() bool {
		back, _ := v.named(hostileLabel)
		return back.Lost == "" && back.Headline == "Nothing waits. 1 lock held."
	})
	must.Succeed(t, frozen.Thaw())
	testenv.WaitUntil(t, "the frozen server answers", func() bool {
		thawed, _ := v.named(labelOf(c))
		return thawed.At != nil && thawed.Lost == ""
	})
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "answers again")
	if strings.Contains(r.stderr, config.Password) {
		t.Errorf("a password was printed: %s", r.stderr)
	}
	r = command(t, nil, "replay", filepath.Join(folder, nameA+".rec"), "--events").run()
	wantText(t, r.stdout, "@42: ")
}
