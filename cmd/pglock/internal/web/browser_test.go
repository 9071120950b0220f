package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// browserVariable is the environment variable with the path of a Chromium.
const browserVariable = "PGLOCK_TEST_BROWSER"

// tab is a page in a headless browser.
type tab struct {
	t   testing.TB
	ctx context.Context
}

// startBrowser starts a browser with an empty page. The page has the size of a desktop's window.
func startBrowser(t testing.TB) *tab {
	t.Helper()
	path := os.Getenv(browserVariable)
	if path == "" {
		t.Skip("make test-browser runs this, with a Chromium")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	return newTab(t, ctx)
}

// newTab opens an empty page in the browser of parent, or in a new one.
func newTab(t testing.TB, parent context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	must.Succeed(t, chromedp.Do(ctx)) // it starts a browser, which ends with this context
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	page := &tab{t, ctx}
	page.do(chromedp.EmulateViewport(1280, 900))
	return page
}

// browse opens the page of a server in a headless browser with the token.
func (s *testPage) browse(path string, prepare ...chromedp.Action[chromedp.Void]) *tab {
	s.t.Helper()
	return s.open(path, "typeof now !== 'undefined' && now > 0", prepare...)
}

// open opens a path with the token, and waits until a condition holds.
func (s *testPage) open(path, shown string, prepare ...chromedp.Action[chromedp.Void]) *tab {
	s.t.Helper()
	page := startBrowser(s.t)
	page.do(prepare...)
	u, err := url.Parse(s.URL + path)
	must.Succeed(s.t, err)
	query := u.Query()
	query.Set("token", s.token)
	u.RawQuery = query.Encode()
	page.do(chromedp.Navigate(u.String()))
	page.wait("document.readyState === 'complete' && " + shown)
	return page
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Succeed(b.t, chromedp.Do(b.ctx, actions...))
}

func (b *tab) text(script string) string {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+script+")"))
	must.Succeed(b.t, err)
	return value
}

// wait waits until a condition in JavaScript holds.
func (b *tab) wait(condition string) {
	b.t.Helper()
	for {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		if err == nil && holds { // there may be an error while a page loads
			return
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("never true: %s", condition)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func phone(height int64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(360, height, chromedp.EmulateMobile)
}

// colours says which colours the reader prefers, "light" or "dark".
func colours(which string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: which}},
		})
		return err
	})
}

func TestBrowserShowsNowAndThen(t *testing.T) {
	s := serve(t, nil)
	page := s.browse("/")
	now := page.text("document.body.innerText") + page.text("document.getElementById('keys').textContent")
	for _, part := range []string{"2 waiting", "1m00s longest", "invoice:1", "12:00:00", "3 leaf", "frees ", "1 root",
		"holds invoice:1 (excl)", "pglock terminate -d shop 1@2026-01-02T11:00:00Z", "12:01:59 UTC",
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
	if title := page.text("document.title"); title != "(2) app@db · PostgreSQL 15.18 · pglock" {
		t.Errorf("the title is %q", title)
	}
	then := s.browse("/?at=2026-01-02T12:00:30Z&key=invoice:1").text("document.body.innerText")
	for _, part := range []string{"1 waiting", "12:00:30 UTC, 1 minute ago", "Back to live", "Only invoice:1"} {
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
	page.do(chromedp.Navigate(thief.URL))
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
	page.wait(`!document.querySelector('#tree > div') && document.getElementById('calm').innerText.includes('Nothing waits. No locks held.')`)
}

func TestBrowserWorksWithTheKeyboardAlone(t *testing.T) {
	page := serve(t, func(o *Options) { o.Live = func() Live { return Live{Snapshot: chain()} } }).browse("/")
	const focus = "document.activeElement.id || document.activeElement.dataset.id || document.activeElement.className"
	var way []string
	for range 6 {
		page.do(chromedp.KeyEvent(kb.Tab))
		way = append(way, page.text(focus))
	}
	if got := strings.Join(way, " "); got != "skip share slider root-copy 9 lock" {
		t.Errorf("Tab leads to %s", got)
	}
	page.text(`document.querySelector('[data-id="9"]').focus()`)
	for _, step := range []struct{ key, to string }{{kb.ArrowDown, "1"}, {kb.ArrowRight, "2"}, {kb.ArrowLeft, "1"}, {kb.ArrowUp, "9"},
		{kb.ArrowUp, "9"}, {kb.ArrowLeft, "9"}, {kb.ArrowRight, "1"}, {kb.ArrowDown, "2"}} {
		page.do(chromedp.KeyEvent(step.key))
		if at := page.text("document.activeElement.dataset.id"); at != step.to {
			t.Errorf("%s leads to %s, want %s", kb.Keys[[]rune(step.key)[0]].Key, at, step.to)
		}
	}
	page.do(chromedp.KeyEvent(kb.Enter))
	page.wait(`document.activeElement.querySelector('.details').innerText.includes('pglock terminate -d shop 2@')`)
	page.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter)) // the lock that it waits for
	page.wait(`location.search === '?key=invoice%3A1' && !document.getElementById('only').hidden`)
}

func TestBrowserSupportsScreenReaders(t *testing.T) {
	s := chain()
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 2, Key: "a", BlockedBy: 3}, {PID: 3, Key: "b", BlockedBy: 2}}}}
	page := serve(t, func(o *Options) { o.Live = func() Live { return Live{Snapshot: s} } }).browse("/")
	nodes, err := chromedp.Run(page.ctx, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	must.Succeed(t, err)
	var tree strings.Builder
	for _, n := range nodes.Nodes {
		role := told(n.Role)
		if n.Ignored || role == "StaticText" || role == "InlineTextBox" {
			continue
		}
		tree.WriteString(role + " '" + told(n.Name) + "'")
		for _, p := range n.Properties {
			if p.Name == "level" || p.Name == "live" || p.Name == "pressed" || p.Name == "valuetext" {
				tree.WriteString(strings.TrimRight(" "+string(p.Name)+"="+told(p.Value), " "))
			}
		}
		tree.WriteString("\n")
	}
	for _, part := range []string{"link 'Skip to the blocking tree'", "heading 'pglock", "status ''",
		"region 'Time'", "slider 'Recorded past'", "button 'Copy link'", "main ''", "region 'What to do'",
		"button 'Copy command'", "treegrid 'Blocking tree'", "columnheader 'Waits for'", "row '9 ddl-owner idle in tx holds relation t 3' level=1\n", "gridcell '9 ddl-owner",
		"row 'deadlock 3 leaf ", " level=4\n", "gridcell 'relation t", "list 'Journal'", "table 'Keys'",
		"columnheader 'Longest wait'", "row '", "cell 'invoice:1 shop'"} {
		if !strings.Contains(tree.String(), part) {
			t.Errorf("the accessibility tree lacks %q", part)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log(tree.String())
	}
}

// told returns a value of the accessibility tree as text.
func told(value *accessibility.Value) string {
	if value == nil {
		return ""
	}
	return strings.Trim(string(value.Value), `"`)
}

func TestBrowserFitsAPhone(t *testing.T) {
	page := serve(t, nil).browse("/", phone(740))
	if wide := page.text("document.documentElement.scrollWidth"); wide != "360" {
		t.Errorf("on a phone it is %s pixels wide", wide)
	}
	const scrolling = `[...document.querySelectorAll('body *')].filter(e => e.scrollHeight > e.clientHeight + 1 &&
		['auto', 'scroll'].includes(getComputedStyle(e).overflowY)).map(e => e.id)`
	if found := page.text(scrolling); found != "" {
		t.Errorf("on a phone a part of the page scrolls: %s", found)
	}
}
