package web

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// listShown is the condition that the list of servers is there.
const listShown = "document.querySelector('#servers > li')"

func TestBrowserListsServersWithTheWorstFirst(t *testing.T) {
	page := serveSeveral(t, severalScenes()...).open("/", listShown)
	rows := page.text(`[...document.querySelectorAll('#servers > li')].map(li => li.className + ' ' + li.querySelector('h2').innerText).join(', ')`)
	want := `waits orders, waits billing, waits <img src=x onerror=alert(1)>\u001b[31m</script>, lost gone, unseen new, elsewhere reports, quiet archive`
	if rows != want {
		t.Errorf("the rows are %s", rows)
	}
	text := page.text("document.body.innerText")
	for _, part := range []string{"7 servers, 1 standby", "1 deadlock", "11 waiting", "4m00s longest", "1 lost", "pglock terminate -d service=orders --session 2@",
		"No answer since 11:00:00 UTC, trying again: dial error connection refused", "Last seen: 1 root, ", "No answer yet",
		"Nothing waits for an advisory lock; 2 sessions wait without an advisory lock.", "Nothing waits. 2 locks held.", "PostgreSQL 15.18 · STANDBY"} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
	if title := page.text("document.title"); title != "(11) 1 lost of 7 servers · pglock" {
		t.Errorf("the title is %q", title)
	}
	if html := page.text("document.documentElement.outerHTML"); strings.Contains(html, "<img") || strings.Contains(html, "\x1b") {
		t.Errorf("a name became HTML:\n%s", html)
	}
	page.text(`(navigator.clipboard.writeText = async text => { window.copied = text; }, document.querySelector('#servers button').click())`)
	page.wait(`window.copied === 'pglock terminate -d service=orders --session 2@2026-01-02T11:00:00Z'`)
}

func TestBrowserGoesToAServerAndBack(t *testing.T) {
	page := serveSeveral(t, severalScenes()...).open("/?all=1", listShown)
	page.wait("location.hash === ''")
	page.do(chromedp.Click(`#servers > li:nth-child(2) .root-who`)) // anywhere
	page.wait(`location.pathname === '/server/billing/' && location.search === '?all=1' && document.getElementById('target').textContent === 'billing' &&
		document.querySelector('#tree .fold')`)
	if title := page.text("document.title"); title != "(7) billing · PostgreSQL 15.18 · pglock" {
		t.Errorf("the title is %q", title)
	}
	page.do(chromedp.Click(`#others`))
	page.wait(`location.pathname === '/' && location.search === '?all=1' && ` + listShown)
	// With the keyboard alone.
	page.text(`document.querySelector('#servers a').focus()`)
	page.do(chromedp.KeyEvent(kb.Enter))
	page.wait(`location.pathname === '/server/orders/' && document.getElementById('root-title').textContent === 'Deadlock'`)
	page.text(`document.getElementById('others').focus()`)
	page.do(chromedp.KeyEvent(kb.Enter))
	page.wait(listShown)
	page.text(`document.getElementById('wide').click()`)
	page.wait(`location.search === '?all=0' && document.querySelector('li.elsewhere') && document.querySelector('h2 a').getAttribute('href') === 'server/orders/?all=0'`)
}

// Rows keep their elements and the focus when the order changes.
func TestBrowserMovesAServerThatGetsWorse(t *testing.T) {
	var live atomic.Pointer[Live]
	live.Store(&Live{Snapshot: quiet()})
	page := serveSeveral(t, named("a", "a", always(Live{Snapshot: quiet()})), named("b", "b", func() Live { return *live.Load() })).open("/", listShown)
	page.text(`(window.b = document.querySelector('li + li'), b.querySelector('a').focus())`)
	live.Store(&Live{Snapshot: snapshot(noon.Add(time.Second))})
	page.wait(`document.querySelector('#servers > li') === b && b.className === 'waits' && document.activeElement === b.querySelector('a')`)
}

// Two servers, of which one crashes and is back.
func TestBrowserListsServersThatAreReal(t *testing.T) {
	steady, crashing := testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	a, b := testenv.On(t, steady), testenv.On(t, crashing)
	holder := a.Connect(t)
	_, err := holder.Exec(t.Context(), "SET application_name = '"+hostileName+"'; SELECT pg_advisory_lock(42)")
	must.Succeed(t, err)
	a.Queue(t, a.Connect(t), "SELECT pg_advisory_lock(42)")
	shown := serveSeveral(t, named("a", "a", watching(t, b)), named("b", "b", watching(t, a)))
	page := shown.open("/", listShown)
	page.wait(`document.querySelector('#servers > .waits h2').innerText === 'b' && document.querySelector('#servers > .quiet h2').innerText === 'a'`)
	if who := page.text(`document.querySelector('.root-who').innerText`); !strings.Contains(who, hostileName) {
		t.Errorf("the root is %q", who)
	}
	must.Succeed(t, crashing.Down(t.Context(), pgserver.Immediate))
	page.wait(`document.querySelector('#servers > .lost h2').innerText === 'a' && document.querySelector('#servers > .waits')`)
	page.text(`window.seen = document.querySelector('.waits [data-part=sum-longest]').innerText`)
	page.wait(`document.querySelector('.waits [data-part=sum-longest]').innerText !== seen`) // the other goes on
	must.Succeed(t, crashing.Up(t.Context()))
	page.wait(`document.querySelector('#servers > .quiet h2').innerText === 'a' && !document.querySelector('.lost')`)
	page.do(chromedp.Click(`#servers > .waits h2 a`))
	page.wait(`location.pathname === '/server/b/' && document.getElementById('root-frees').textContent === '1'`)
}

const hostileName = `<b onclick=alert(1)>&amp;`

// watching returns the state of a database, as it is observed until the test ends.
func watching(t testing.TB, db *testenv.DB) func() Live {
	var live atomic.Pointer[Live]
	live.Store(&Live{})
	ctx, cancel := context.WithCancel(t.Context())
	pool := db.Pool(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s, err := range monitor.Watch(ctx, pool, 100*time.Millisecond) {
			next := *live.Load()
			if next.Lost = err; err == nil {
				next.Snapshot = s
			}
			live.Store(&next)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() Live { return *live.Load() }
}

func TestBrowserListFitsAPhone(t *testing.T) {
	page := serveSeveral(t, severalScenes()...).open("/", listShown, phone(740))
	if wide := page.text("document.documentElement.scrollWidth"); wide != "360" {
		t.Errorf("on a phone it is %s pixels wide", wide)
	}
}

func TestBrowserListHasContrast(t *testing.T) {
	for name, prepare := range map[string][]chromedp.Action[chromedp.Void]{"light": nil, "dark": {colours("dark")}} {
		page := serveSeveral(t, severalScenes()...).open("/", listShown, prepare...)
		if found := page.text(lowContrast); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
}

func TestBrowserPicturesOfSeveralServers(t *testing.T) {
	directory := os.Getenv(picturesVariable)
	if directory == "" {
		t.Skip("make test-browser takes pictures")
	}
	calm := []Server{named("archive", "archive", always(Live{Snapshot: quiet()})), named("orders", "orders", always(Live{Snapshot: quiet()}))}
	for name, servers := range map[string][]Server{"several": severalScenes(), "several-calm": calm} {
		page := serveSeveral(t, servers...).open("/", listShown)
		for size, resize := range sizes {
			for colours, prefer := range map[string]chromedp.Action[chromedp.Void]{"light": colours("light"), "dark": colours("dark")} {
				page.do(resize, prefer)
				page.picture(filepath.Join(directory, name+"-"+size+"-"+colours+".png"))
			}
		}
	}
	page := serveSeveral(t, severalScenes()...).browse("/server/billing/")
	page.do(sizes["1440"])
	page.picture(filepath.Join(directory, "several-one.png"))
}

// sizes are those of windows of which there are pictures.
var sizes = map[string]chromedp.Action[chromedp.Void]{"390": chromedp.EmulateViewport(390, 1400, chromedp.EmulateMobile),
	"1100": chromedp.EmulateViewport(1100, 900), "1440": chromedp.EmulateViewport(1440, 900), "1920": chromedp.EmulateViewport(1920, 1080)}
