package web

import (
	"bytes"
	"context"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/chromium"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// picturesVariable is the environment variable with the directory for screenshots of the page.
const picturesVariable = "PGLOCK_TEST_PICTURES"

// tab is a page in a headless browser.
type tab struct {
	*chromium.Page
	t   testing.TB
	ctx context.Context
}

// browse opens a path in a headless browser with the token.
func (s *testPage) browse(path string, prepare ...func(*tab)) *tab {
	s.t.Helper()
	if os.Getenv(chromium.Variable) == "" {
		s.t.Skip("make test-browser runs this, with a Chromium")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	s.t.Cleanup(cancel)
	browser, err := chromium.Start()
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { must.Succeed(s.t, browser.Close()) })
	page, err := browser.NewPage(ctx)
	must.Succeed(s.t, err)
	shown := &tab{page, s.t, ctx}
	must.Succeed(s.t, page.Size(ctx, 1280, 900, false))
	for _, do := range prepare {
		do(shown)
	}
	u, err := url.Parse(s.URL + path)
	must.Succeed(s.t, err)
	query := u.Query()
	query.Set("token", s.token)
	u.RawQuery = query.Encode()
	must.Succeed(s.t, page.Navigate(ctx, u.String()))
	shown.wait("document.readyState === 'complete' && typeof now !== 'undefined' && now > 0")
	return shown
}

func (b *tab) text(script string) (value string) {
	b.t.Helper()
	must.Succeed(b.t, b.Eval(b.ctx, "String("+script+")", &value))
	return value
}

// wait waits until a condition in JavaScript holds.
func (b *tab) wait(condition string) {
	b.t.Helper()
	for {
		var holds bool
		_ = b.Eval(b.ctx, "Boolean("+condition+")", &holds) // there may be none while a page loads
		if holds {
			return
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("never true: %s", condition)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (b *tab) press(key string, code int) {
	b.t.Helper()
	must.Succeed(b.t, b.Press(b.ctx, key, code))
}

const (
	keyTab, keyEnter, keyLeft, keyUp, keyRight, keyDown = 9, 13, 37, 38, 39, 40
)

func TestBrowserShowsNowAndThen(t *testing.T) {
	s := serve(t, nil)
	page := s.browse("/")
	now := page.text("document.body.innerText") + page.text("document.getElementById('keys').textContent")
	for _, part := range []string{"2 waiters", "invoice:1", "seen since 12:00:00", "3 leaf", "blocked by 1 root",
		`<img src=x onerror=alert(1)>\u001b[31m</script>`} {
		if !strings.Contains(now, part) {
			t.Errorf("now it does not say %q:\n%s", part, now)
		}
	}
	html := page.text("document.documentElement.outerHTML")
	if strings.Contains(html, "<img") || strings.Contains(html, "\x1b") || strings.Contains(html, s.token) ||
		strings.Contains(page.text("location.href + document.cookie + document.referrer"), "token") {
		t.Errorf("a name became HTML, or the token or cookie can be read:\n%s", html)
	}
	then := s.browse("/?at=2026-01-02T12:00:30Z&key=invoice:1").text("document.body.innerText")
	for _, part := range []string{"1 waiter", "2026-01-02 12:00:30 UTC"} {
		if !strings.Contains(then, part) {
			t.Errorf("then it does not say %q:\n%s", part, then)
		}
	}
}

// A browser sends the cookie to all ports of the host.
func TestBrowserGivesOtherPortsNothingToReadThePageWith(t *testing.T) {
	s := serve(t, nil)
	page := s.browse("/")
	var stolen atomic.Pointer[http.Request]
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			stolen.Store(r)
		}
	}))
	t.Cleanup(thief.Close)
	must.Succeed(t, page.Navigate(page.ctx, thief.URL))
	page.wait("location.href === '" + thief.URL + "/'")
	r := stolen.Load()
	if r == nil || len(r.Cookies()) != 1 {
		t.Fatalf("the other port did not get the cookie: %v", r)
	}
	if found := page.text("sessionStorage.length + document.referrer + location.hash"); found != "0" {
		t.Errorf("the other port finds %q", found)
	}
	s.secret = ""
	for _, path := range paths {
		if strings.HasPrefix(path, "/api/") {
			s.want(http.StatusUnauthorized, path, "Cookie", r.Header.Get("Cookie"))
		}
	}
}

func TestBrowserStaysLoggedIn(t *testing.T) {
	s := serve(t, nil)
	shown := s.browse("/?key=invoice:1")
	const works = "document.readyState === 'complete' && typeof now !== 'undefined' && now > 0"
	if hash := shown.text("location.href"); hash != s.URL+"/?key=invoice%3A1" {
		t.Errorf("after the login the address is %s", hash)
	}
	must.Succeed(t, shown.Call(shown.ctx, "Page.reload", nil, nil))
	shown.wait(works)
	must.Succeed(t, shown.Navigate(shown.ctx, s.URL+"/"))
	shown.wait("location.search === '' && " + works)
	other, err := shown.Browser().NewPage(shown.ctx) // it has no sessionStorage
	must.Succeed(t, err)
	tab := &tab{other, t, shown.ctx}
	must.Succeed(t, other.Navigate(shown.ctx, s.URL+"/"))
	tab.wait(works)
}

// Unchanged parts keep their elements, changed ones get new elements, and the focus stays.
func TestBrowserChangesOnlyWhatHasChanged(t *testing.T) {
	var live atomic.Pointer[Live]
	live.Store(&Live{Snapshot: chain()})
	s := serve(t, func(o *Options) { o.Live = func() Live { return *live.Load() } })
	page := s.browse("/")
	page.text(`(window.leaf = document.querySelector('[data-id="3"]'), window.first = document.querySelector('[data-id="9"]'), first.focus())`)
	next := chain()
	next.TakenAt = noon.Add(time.Second)
	next.OtherSessions[0].State = "active"
	live.Store(&Live{Snapshot: next})
	page.wait(`document.querySelector('[data-id="9"]').textContent.includes('active')`)
	for _, condition := range []string{`document.querySelector('[data-id="3"]') === leaf`, `!document.contains(first)`,
		`document.activeElement === document.querySelector('[data-id="9"]')`,
		`document.querySelector('[data-id="3"] .age').textContent === '1m01s'`} {
		if page.text(condition) != "true" {
			t.Errorf("not true: %s", condition)
		}
	}
	live.Store(&Live{Snapshot: &monitor.Snapshot{TakenAt: noon.Add(2 * time.Second)}})
	page.wait(`!document.querySelector('#tree > div') && !document.getElementById('no-tree').hidden`)
}

func TestBrowserWorksWithTheKeyboardAlone(t *testing.T) {
	page := serve(t, func(o *Options) { o.Live = func() Live { return Live{Snapshot: chain()} } }).browse("/")
	var way []string
	for range 6 {
		page.press("Tab", keyTab)
		way = append(way, page.text("document.activeElement.id || document.activeElement.className || document.activeElement.dataset.id"))
	}
	if got := strings.Join(way, " "); got != "skip slider live share 9 journal" {
		t.Errorf("Tab leads to %s", got)
	}
	page.text(`document.querySelector('[data-id="9"]').focus()`)
	for _, step := range []struct {
		key  string
		code int
		to   string
	}{{"ArrowDown", keyDown, "1"}, {"ArrowRight", keyRight, "2"}, {"ArrowLeft", keyLeft, "1"}, {"ArrowUp", keyUp, "9"},
		{"ArrowUp", keyUp, "9"}, {"ArrowLeft", keyLeft, "9"}, {"ArrowRight", keyRight, "1"}, {"ArrowDown", keyDown, "2"}} {
		page.press(step.key, step.code)
		if at := page.text("document.activeElement.dataset.id"); at != step.to {
			t.Errorf("%s leads to %s, want %s", step.key, at, step.to)
		}
	}
	page.press("Enter", keyEnter)
	page.wait(`location.search === '?key=invoice%3A1' && !document.getElementById('all').hidden`)
}

// accessible is a node of the page's accessibility tree.
type accessible struct {
	Role, Name struct{ Value string }
	Ignored    bool
	Properties []struct {
		Name  string
		Value struct{ Value any }
	}
}

func TestBrowserSupportsScreenReaders(t *testing.T) {
	s := chain()
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 2, Key: "a", BlockedBy: 3}, {PID: 3, Key: "b", BlockedBy: 2}}}}
	page := serve(t, func(o *Options) { o.Live = func() Live { return Live{Snapshot: s} } }).browse("/")
	var told struct{ Nodes []accessible }
	must.Succeed(t, page.Call(page.ctx, "Accessibility.getFullAXTree", nil, &told))
	var tree strings.Builder
	for _, n := range told.Nodes {
		if n.Ignored || n.Role.Value == "StaticText" || n.Role.Value == "InlineTextBox" {
			continue
		}
		tree.WriteString(n.Role.Value + " '" + n.Name.Value + "'")
		for _, p := range n.Properties {
			if p.Name == "level" || p.Name == "live" || p.Name == "pressed" || p.Name == "valuetext" {
				tree.WriteString(strings.TrimRight(strings.Join([]string{" ", p.Name, "=", printed(p.Value.Value)}, ""), " "))
			}
		}
		tree.WriteString("\n")
	}
	for _, part := range []string{"link 'Skip to the blocking tree'", "heading 'pglock", "status ''", "alert '' live=assertive",
		"region 'Time'", "slider 'Recorded past'", "button 'Live' pressed=true", "button 'Copy link'", "main ''",
		"tree 'Blocking tree'", "treeitem '9 ddl-owner", " level=1\n", "blocked by 9 ddl-owner, relation t", " level=2\n",
		"list 'Journal'", "table 'Keys'", "columnheader 'Longest wait'", "row '", "cell 'invoice:1 shop'"} {
		if !strings.Contains(tree.String(), part) {
			t.Errorf("the accessibility tree lacks %q", part)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log(tree.String())
	}
}

func printed(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	if number, ok := value.(float64); ok {
		return string(rune('0' + int(number)))
	}
	return ""
}

func TestBrowserFitsAPhone(t *testing.T) {
	page := serve(t, nil).browse("/", func(b *tab) { must.Succeed(b.t, b.Size(b.ctx, 360, 740, true)) })
	if wide := page.text("document.documentElement.scrollWidth"); wide != "360" {
		t.Errorf("on a phone it is %s pixels wide", wide)
	}
}

func TestBrowserPictures(t *testing.T) {
	directory := os.Getenv(picturesVariable)
	if directory == "" {
		t.Skip("make test-browser takes pictures")
	}
	for name, prepare := range map[string]func(*tab){
		"wide":  func(*tab) {},
		"dark":  func(b *tab) { must.Succeed(b.t, b.Scheme(b.ctx, "dark")) },
		"phone": func(b *tab) { must.Succeed(b.t, b.Size(b.ctx, 360, 1400, true)) },
		"phone-dark": func(b *tab) {
			must.Succeed(b.t, b.Size(b.ctx, 360, 1400, true))
			must.Succeed(b.t, b.Scheme(b.ctx, "dark"))
		},
	} {
		page := serve(t, nil).browse("/", prepare)
		picture, err := page.Picture(page.ctx)
		must.Succeed(t, err)
		if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must.Succeed(t, os.WriteFile(filepath.Join(directory, name+".png"), picture, 0o644))
	}
}
