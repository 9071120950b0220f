package web

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pglock-toolkit/pglock/monitor"
)

// pileUp is a snapshot in which n sessions wait for one key.
func pileUp(at time.Time, n int) *monitor.Snapshot {
	s := snapshot(at)
	s.Locks = s.Locks[:1]
	lock := &s.Locks[0]
	lock.Key = "tenant:7f3a9c42:warehouse:frankfurt-main-03:reconcile:full:2026-11"
	lock.Names, lock.Waiters = []string{lock.Key}, nil
	for i := range n {
		since, began := at.Add(-time.Minute+time.Duration(i)*100*time.Millisecond), noon.Add(-time.Hour)
		lock.Waiters = append(lock.Waiters, monitor.Waiter{Mode: "exclusive", WaitingSince: &since,
			Session:   monitor.Session{PID: int32(1000 + i), Application: fmt.Sprintf("waiter-%d", i), State: "active", Since: &began},
			BlockedBy: []monitor.Blocker{{PID: 1, Kind: "hard"}}})
	}
	return s
}

// elsewhere is a snapshot in which sessions 71 and 72 wait for a table, without an advisory lock.
func elsewhere() *monitor.Snapshot {
	s := snapshot(noon)
	for pid := int32(71); pid <= 72; pid++ {
		s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Lock: monitor.OtherLock{Type: "relation", Relation: 7, Name: "customers"},
			Waiter: monitor.Waiter{Mode: "AccessShareLock", Session: monitor.Session{PID: pid, Application: "web"},
				BlockedBy: []monitor.Blocker{{PID: 70, Kind: "hard", Mode: "AccessExclusiveLock"}}}})
	}
	s.OtherSessions = append(s.OtherSessions, monitor.Session{PID: 70, Application: "vacuum-full", State: "active"})
	return s
}

func showing(live func() Live) func(*Options) { return func(o *Options) { o.Live = live } }

func TestPageFoldsWaitersThatAreAlike(t *testing.T) {
	t.Parallel()
	st := newState(Live{Snapshot: pileUp(noon, 2000)}, Options{}, "")
	fold := st.Tree[1].Fold
	if fold == nil || fold.Count != 2000 || fold.Sent != maxMembers || fold.First.Application != "waiter-0" ||
		fold.Last.Application != "waiter-1999" || st.Tree[2].In != st.Tree[1].ID || len(st.Tree) != 2+maxMembers || st.MoreSessions != 0 {
		t.Errorf("%d rows, %d more, the fold is %+v", len(st.Tree), st.MoreSessions, fold)
	}
	if !strings.Contains(st.Headline, ": frees 2000") || len(st.Commands) != 1 || !st.Tree[1].Wait.Again {
		t.Errorf("%s: %q", st.Headline, st.Commands)
	}
	lost := newState(Live{Snapshot: pileUp(noon, 3), Lost: errors.New("refused")}, Options{}, "")
	if !strings.HasPrefix(lost.Headline, "Unknown since ") || len(lost.Commands) > 0 {
		t.Errorf("of a server that does not answer: %s: %q", lost.Headline, lost.Commands)
	}
	few := newState(Live{Snapshot: pileUp(noon, 3)}, Options{}, "")
	if len(few.Tree) != 4 || few.Tree[1].Fold != nil {
		t.Errorf("three waiters are %d rows", len(few.Tree))
	}
}

func TestPageShowsWaitsWithoutAnAdvisoryLock(t *testing.T) {
	t.Parallel()
	if st := newState(Live{Snapshot: elsewhere()}, Options{}, ""); len(st.Tree) != 6 || st.Waiting != 4 {
		t.Errorf("%d rows, %d waiting", len(st.Tree), st.Waiting)
	}
	if only := newState(Live{Snapshot: elsewhere()}, Options{}, "invoice:1"); len(only.Keys) != 1 {
		t.Errorf("of one key: %+v", only.head)
	}
}

func TestPageSaysWhyThereIsNoAnswerOnce(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused\n\t")
	err := fmt.Errorf("monitor: cannot read: %w", errors.Join(fmt.Errorf("[::1]:5432: %w", refused), fmt.Errorf("127.0.0.1:5432: %w", refused)))
	if st := newState(Live{Lost: err}, Options{}, ""); st.Lost != "connection refused" || st.At != nil {
		t.Errorf("lost: %q", st.Lost)
	}
}

func TestBrowserFoldsAPileUp(t *testing.T) {
	page := serve(t, showing(func() Live { return Live{Snapshot: pileUp(noon, 200)} })).browse("/")
	page.do(chromedp.EmulateViewport(1440, 900))
	for _, condition := range []string{`document.querySelectorAll('#tree > div').length === 2`,
		`document.querySelector('#tree .fold').innerText.includes('200 sessions')`,
		`document.querySelector('#tree .fold').innerText.includes('waiter-0 … waiter-199')`,
		`document.querySelector('#tree > div + div').getBoundingClientRect().bottom < 900`,
		`document.querySelectorAll('#tree .lock').length === 1`, // the key is shown once
		`document.getElementById('root-what').textContent.includes('frees 200')`} {
		if page.text(condition) != "true" {
			t.Errorf("not true: %s", condition)
		}
	}
	page.text(`document.querySelector('#tree > div + div').focus()`)
	page.do(chromedp.KeyEvent(kb.ArrowRight))
	page.wait(`document.querySelectorAll('#tree > div').length === 202 && document.activeElement.getAttribute('aria-expanded') === 'true'`)
	page.do(chromedp.KeyEvent(kb.ArrowLeft))
	page.wait(`document.querySelectorAll('#tree > div').length === 2 && document.activeElement.getAttribute('aria-expanded') === 'false'`)
}

func TestBrowserCopiesTheCommand(t *testing.T) {
	page := serve(t, nil).browse("/")
	page.text(`(navigator.clipboard.writeText = async text => { window.copied = text; }, document.getElementById('root-copy').click())`)
	page.wait(`window.copied === 'pglock terminate -d shop 1@2026-01-02T11:00:00Z' && document.getElementById('root-copy').textContent === 'Copied'`)
	page.wait(`document.getElementById('root-copy').textContent === 'Copy command'`)
	// Without the permission the command is selected.
	page.text(`(navigator.clipboard.writeText = async () => { throw new Error(); }, document.getElementById('root-copy').click())`)
	page.wait(`String(getSelection()) === 'pglock terminate -d shop 1@2026-01-02T11:00:00Z'`)
}

func TestBrowserShowsThePastAsThePast(t *testing.T) {
	page := serve(t, nil).browse("/")
	page.text(`(document.getElementById('slider').value = 250, document.getElementById('slider').dispatchEvent(new Event('input')))`)
	page.wait(`!document.getElementById('past').hidden && document.body.hasAttribute('data-past') && document.getElementById('past-time').textContent === '12:00:29 UTC'`)
	page.wait(`document.getElementById('sum-waiting').textContent.includes('1 waiting') && document.getElementById('root-first').hidden`)
	page.text(`document.querySelector('[data-step="60"]').click()`)
	page.wait(`document.getElementById('past-time').textContent === '12:01:29 UTC' && document.getElementById('sum-waiting').textContent.includes('2 waiting')`)
	if text := page.text(`document.getElementById('slider').getAttribute('aria-valuetext')`); text != "12:01:29 UTC: 2 waiting, longest 1m00s" {
		t.Errorf("the slider says %q", text)
	}
	page.text(`document.getElementById('live').click()`)
	page.wait(`document.getElementById('past').hidden && !document.body.hasAttribute('data-past') && location.search === '' && !document.getElementById('root-first').hidden`)
}

func TestBrowserGreysOutInAnOutage(t *testing.T) {
	var live atomic.Pointer[Live]
	live.Store(&Live{Snapshot: snapshot(noon)})
	page := serve(t, showing(func() Live { return *live.Load() })).browse("/")
	page.wait(`document.getElementById('alert').hidden && !document.body.hasAttribute('data-stale')`)
	live.Store(&Live{Snapshot: snapshot(noon), Lost: errors.New("dial error\n\t127.0.0.1: connection refused")})
	page.wait(`document.body.hasAttribute('data-stale') && document.getElementById('alert').getAttribute('role') === 'alert'`)
	text := page.text("document.body.innerText")
	if alert := page.text("document.getElementById('alert').innerText"); alert != "Unknown since 12:00:00 UTC: no answer, trying again: dial error 127.0.0.1: connection refused" {
		t.Errorf("the banner says %q", alert)
	}
	if strings.Contains(text, `\u`) && !strings.Contains(text, `\u001b`) || strings.Count(text, "connection refused") != 1 ||
		strings.Count(text, "last seen 12:00:00") < 3 || !strings.Contains(page.text("document.title"), "(no answer)") {
		t.Errorf("in an outage it says:\n%s", text)
	}
	next := snapshot(noon.Add(time.Second))
	live.Store(&Live{Snapshot: next})
	page.wait(`!document.body.hasAttribute('data-stale') && document.getElementById('alert').hidden && !document.body.innerText.includes('last seen')`)
}

// Texts have the contrast that WCAG 2.2 asks for, 4.5 to 1, in the light, in the dark, in the past and in an outage.
func TestBrowserHasContrast(t *testing.T) {
	lost := Live{Snapshot: elsewhere(), Lost: errors.New("refused")}
	for name, prepare := range map[string][]chromedp.Action[chromedp.Void]{"light": nil, "dark": {colours("dark")}} {
		for path, options := range map[string]func(*Options){"/": nil, "/?at=2026-01-02T12:01:30Z": nil, "/?all=1": showing(func() Live { return lost })} {
			page := serve(t, options).browse(path, prepare...)
			if found := page.text(lowContrast); found != "" {
				t.Errorf("%s %s: %s", name, path, found)
			}
		}
	}
}

const lowContrast = `(() => {
	const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
	const rgb = color => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
	const light = color => [...color].slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return rgb('white'); };
	const low = [];
	for (const e of document.querySelectorAll('body *')) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length || e.closest('svg')) continue;
		const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) low.push(e.tagName + '.' + e.className + ' "' + e.textContent.slice(0, 30) + '" ' + ratio.toFixed(2));
	}
	return low.join('; ');
})()`
