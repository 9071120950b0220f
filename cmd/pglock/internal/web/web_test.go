package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

const hostile = "<img src=x onerror=alert(1)>\x1b[31m</script>"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// snapshot has a chain 1 ← 2 ← 3 over two keys, and a key with a hostile name.
func snapshot(at time.Time) *monitor.Snapshot {
	session := func(pid int32, name string) monitor.Session {
		since := noon.Add(-time.Hour)
		return monitor.Session{PID: pid, Application: name, User: "app", Database: "shop", State: "active", Since: &since}
	}
	since := at.Add(-time.Minute)
	lock := func(number int64, key string, holder, waiter monitor.Session) monitor.Lock {
		return monitor.Lock{Key: key, Names: []string{key}, Objsubid: 1, Number: number, Database: "shop",
			Holders: []monitor.Holder{{Mode: "exclusive", Session: holder}},
			Waiters: []monitor.Waiter{{Mode: "exclusive", WaitingSince: &since, Session: waiter,
				BlockedBy: []monitor.Blocker{{PID: holder.PID, Kind: "hard"}}}}}
	}
	return &monitor.Snapshot{TakenAt: at, ServerVersion: "15.18 (Debian 15.18-0+deb12u1)", Database: "shop", Cycles: []monitor.Cycle{}, Locks: []monitor.Lock{
		lock(1, "invoice:1", session(1, "root"), session(2, hostile)),
		lock(2, hostile, session(2, hostile), session(3, "leaf")),
	}}
}

// testPage is a page with a recording of two minutes.
type testPage struct {
	*httptest.Server
	t      testing.TB
	client *http.Client
	token  string
	secret string // since the login
}

func serve(t testing.TB, change func(*Options)) *testPage {
	t.Helper()
	j, past := journal.New(), recording.NewMemory(1<<20)
	var events []journal.Event
	var last *monitor.Snapshot
	for i := range 120 {
		last = snapshot(noon.Add(time.Duration(i) * time.Second))
		if i < 60 {
			last.Locks = last.Locks[:1]
		}
		events = append(events, j.See(last)...)
		line, err := recording.Encode(last, nil, false)
		must.Succeed(t, errors.Join(err, past.Add(line)))
	}
	o := Options{Token: "t0ken", Clients: 3, Target: "app@db", Flags: " -d shop", Past: past,
		Live: func() Live { return Live{Snapshot: last, Events: events} }}
	if change != nil {
		change(&o)
	}
	return serveOptions(t, o)
}

func serveOptions(t testing.TB, o Options) *testPage {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.Succeed(t, err)
	s := &testPage{Server: httptest.NewServer(New(o)), t: t, client: &http.Client{Jar: jar}, token: o.Token}
	t.Cleanup(s.Close)
	return s
}

// get asks for a path, with headers as names and values in turn.
func (s *testPage) get(path string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	return s.do(http.MethodGet, path, headers...)
}

func (s *testPage) do(method, path string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, nil)
	must.Succeed(s.t, err)
	r.Header.Set(secretHeader, s.secret)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := s.client.Do(r)
	must.Succeed(s.t, err)
	text, err := io.ReadAll(answer.Body)
	must.Succeed(s.t, err)
	must.Succeed(s.t, answer.Body.Close())
	for _, to := range []string{answer.Header.Get("Location"), answer.Request.URL.String()} {
		if _, secret, ok := strings.Cut(to, "#secret="); ok {
			s.secret = secret
		}
	}
	return answer, string(text)
}

func (s *testPage) want(status int, path string, headers ...string) string {
	s.t.Helper()
	answer, text := s.get(path, headers...)
	if answer.StatusCode != status {
		s.t.Errorf("GET %s %q: %d, want %d: %s", path, headers, answer.StatusCode, status, text)
	}
	for name, value := range headerWants {
		if !strings.Contains(answer.Header.Get(name), value) {
			s.t.Errorf("GET %s: %s is %q", path, name, answer.Header.Get(name))
		}
	}
	if answer.Header.Get("Access-Control-Allow-Origin") != "" {
		s.t.Errorf("GET %s: it has CORS headers", path)
	}
	return text
}

var headerWants = map[string]string{"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
	"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}

func (s *testPage) login() *testPage {
	s.t.Helper()
	s.want(http.StatusOK, "/?token=t0ken")
	return s
}

var paths = []string{"/", "/app.js", "/list.js", "/lists.js", "/text.js", "/timeline.js", "/tree.js", "/access.js", "/style.css", "/api/now", "/api/at?at=2026-01-02T12:01:00Z", "/api/timeline"}

// Cookies are shared by all ports of a host.
func TestPagesOfSeveralMonitorsCanBeOpenInOneBrowser(t *testing.T) {
	t.Parallel()
	a, b := serve(t, nil), serve(t, nil)
	b.client = a.client
	a.want(http.StatusOK, "/?token=t0ken")
	b.want(http.StatusOK, "/?token=t0ken")
	a.want(http.StatusOK, "/api/now")
	b.want(http.StatusOK, "/api/now")
	// The cookies of both go to both. The page of one cannot use them at the other.
	for _, path := range paths {
		if strings.HasPrefix(path, "/api/") {
			a.want(http.StatusUnauthorized, path, secretHeader, b.secret)
			a.want(http.StatusUnauthorized, path, secretHeader, "")
		}
	}
}

// Another port can set a cookie of the same name for a longer path. Browsers send that first.
func TestPageFindsItsCookieBehindAnother(t *testing.T) {
	t.Parallel()
	s := serve(t, nil).login()
	u, err := url.Parse(s.URL)
	must.Succeed(t, err)
	s.client.Jar.SetCookies(u.JoinPath("/api/now"), []*http.Cookie{{Name: "pglock-" + u.Port(), Value: "planted", Path: "/api"}})
	s.want(http.StatusOK, "/api/now")
}

func TestPageNeedsTheToken(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, path := range append(paths, "/?token=wrong", "/?token=", "/api/now?token=t0ken") {
		s.want(http.StatusUnauthorized, path)
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, _ := s.get("/?token=t0ken&at=2026-01-02T12:01:00Z&key=a%26b")
	cookie := answer.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Value == "t0ken" || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	to, err := url.Parse(answer.Header.Get("Location"))
	must.Succeed(t, err)
	if answer.StatusCode != http.StatusSeeOther || to.Query().Has("token") || to.Query().Get("key") != "a&b" || to.Host != "" ||
		!strings.HasPrefix(to.Fragment, "secret=") || strings.Contains(to.Fragment, cookie.Value) || strings.Contains(to.Fragment, "t0ken") {
		t.Errorf("%d to %s", answer.StatusCode, to)
	}
	for _, path := range paths {
		s.want(http.StatusOK, path)
	}
	s.want(http.StatusNotFound, "/api/terminate")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodHead} {
		if answer, _ := s.do(method, "/api/now"); answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, answer.StatusCode)
		}
	}
	secure := serve(t, func(o *Options) { o.Secure = true })
	secure.client.CheckRedirect = s.client.CheckRedirect
	answer, _ = secure.get("/?token=t0ken")
	if cookie := answer.Cookies()[0]; !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("with TLS the cookie is %v", cookie)
	}
}

func TestPageForgetsTheOldestBrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, nil).login()
	first := s.client
	for range 3 {
		jar, err := cookiejar.New(nil)
		must.Succeed(t, err)
		s.client = &http.Client{Jar: jar}
		s.login()
	}
	s.want(http.StatusOK, "/api/now")
	s.client = first
	s.want(http.StatusUnauthorized, "/api/now")
}

func TestPageRefusesOtherSitesAndNames(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Hosts = []string{"locks.example"} }).login()
	for _, path := range append(paths, "/?token=t0ken") {
		s.want(http.StatusMisdirectedRequest, path, "Host", "evil.example")
		s.want(http.StatusMisdirectedRequest, path, "Host", "192.0.2.1:80")
		for _, site := range []string{"cross-site", "same-site", "nonsense"} {
			s.want(http.StatusForbidden, path, "Sec-Fetch-Site", site)
		}
	}
	s.want(http.StatusOK, "/api/now", "Sec-Fetch-Site", "same-origin")
	s.want(http.StatusOK, "/", "Sec-Fetch-Site", "none")
	s.want(http.StatusUnauthorized, "/api/now", "Host", "locks.example") // the host name is allowed, but the cookie is another host's
	// A link on another site leads to a page that reloads itself and has no data.
	text := s.want(http.StatusOK, "/?token=t0ken", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-Dest", "document")
	if strings.Contains(text, "t0ken") || !strings.Contains(text, "refresh") {
		t.Errorf("the page is %q", text)
	}
	s.want(http.StatusForbidden, "/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
}

// state requests a state.
func (s *testPage) state(path string) (st state) {
	s.t.Helper()
	answer, text := s.get(path)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" || strings.Contains(text, "<img") {
		s.t.Errorf("%s: %d, %s: %s", path, answer.StatusCode, answer.Header.Get("Content-Type"), text)
	}
	must.Succeed(s.t, json.Unmarshal([]byte(text), &st))
	return st
}

func TestPageShowsNowAndThen(t *testing.T) {
	t.Parallel()
	s := serve(t, nil).login()
	now := s.state("/api/now")
	if now.Waiting != 2 || len(now.Keys) != 2 || len(now.Tree) != 3 ||
		now.Tree[2].Depth != 2 || now.Tree[0].SeenSince == nil || now.Tree[0].Behind != 2 || len(now.Events) == 0 {
		t.Errorf("now: %+v", now)
	}
	if then := s.state("/api/at?at=2026-01-02T12:00:30.5Z"); then.Waiting != 1 || !then.At.Equal(noon.Add(30*time.Second)) {
		t.Errorf("half a minute after noon: %+v", then)
	}
	if one := s.state("/api/now?key=invoice:1"); len(one.Keys) != 1 || one.Keys[0].Key != "invoice:1" {
		t.Errorf("one key: %+v", one)
	}
	s.want(http.StatusNoContent, "/api/now?since="+now.Tag)
	var line timeline
	must.Succeed(t, json.Unmarshal([]byte(s.want(http.StatusOK, "/api/timeline?n=10")), &line))
	if len(line.Bars) != 10 || line.Bars[0].Waiters != 1 || line.Bars[9].Waiters != 2 || !line.First.Equal(noon) {
		t.Errorf("timeline: %+v", line)
	}
	must.Succeed(t, json.Unmarshal([]byte(s.want(http.StatusOK, "/api/timeline?n=10&seconds=20&to=2026-01-02T12:01:30Z")), &line))
	if !line.First.Equal(noon.Add(70*time.Second)) || !line.Last.Equal(noon.Add(90*time.Second)) || !line.Begin.Equal(noon) {
		t.Errorf("20 seconds of the timeline: %+v", line)
	}
	for path, status := range map[string]int{
		"/api/timeline?seconds=-1": 400, "/api/timeline?seconds=x": 400, "/api/timeline?to=x": 400,
		"/api/at": 400, "/api/at?at=now": 400, "/api/at?at=1999-01-01T00:00:00Z": 404, "/api/at?at=9999-01-01T00:00:00Z": 404,
		"/api/timeline?n=0": 400, "/api/timeline?n=100000": 400, "/api/now?key=" + strings.Repeat("x", 2000): 400,
	} {
		s.want(status, path)
	}
}
