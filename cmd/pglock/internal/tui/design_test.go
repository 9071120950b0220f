package tui

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// styledLines returns the lines of the screen that contain a text, with their styles.
func (u *user) styledLines(text string) (lines []string) {
	for line := range strings.Lines(u.m.View().Content) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

var setColour = regexp.MustCompile(`\x1b\[[0-9;]*?\b(3[0-7]|9[0-7]|4[0-7]|10[0-7])(;[0-9;]*)?m([^\x1b]*)`)

// coloured returns the coloured texts of a line, and the number of each colour.
func coloured(line string) (texts []string) {
	for _, m := range setColour.FindAllStringSubmatch(line, -1) {
		texts = append(texts, m[1]+" "+strings.TrimSpace(m[3]))
	}
	return texts
}

func TestTheRootIsRedAndOnlyTheWaitOfOthersIsColoured(t *testing.T) {
	u := open(t, Options{First: pileUp(3)}, 80, 24)
	later := mixedSnapshot()
	u.snapshotArrives(later)
	u.presses("end") // so that it is not the root that is selected
	root := u.styledLines("4711 payments ")
	if got := coloured(root[len(root)-1]); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return !strings.HasPrefix(c, "31 ") }) ||
		!strings.Contains(root[len(root)-1], "1;31m") {
		t.Errorf("the root is drawn as %q", root)
	}
	for text, want := range map[string]string{"4712 worker-1": "35 12s", "4713 worker-2": "", "4715 writer": ""} {
		if got := strings.Join(coloured(u.styledLines(text)[0]), ", "); got != want {
			t.Errorf("of %s is coloured %q, want %q", text, got, want)
		}
	}
}

// What a server said before it was lost has no colour, since it may not be so any more.
func TestTheLastSnapshotBeforeAnOutageIsGrey(t *testing.T) {
	u := open(t, Options{First: mixedSnapshot()}, 80, 24)
	u.send(snapshotMsg{err: errors.New("connection refused")})
	for _, text := range []string{"4711 payments", "4712 worker-1", "4713 worker-2"} {
		for _, line := range u.styledLines(text) {
			if got := coloured(line); len(got) > 0 {
				t.Errorf("%q are coloured", got)
			}
		}
	}
	u.snapshotArrives(mixedSnapshot())
	if len(coloured(u.styledLines("4711 payments")[0])) == 0 {
		t.Error("nothing is coloured after the outage")
	}
}

func TestWaitsAreColouredByAge(t *testing.T) {
	s := newStyles()
	for wait, want := range map[time.Duration]any{0: nil, 9 * time.Second: nil, 10 * time.Second: s.late.GetForeground(),
		time.Minute: s.tooLate.GetForeground()} {
		if got := s.ofWait(wait).GetForeground(); want != nil && got != want || want == nil && got == s.late.GetForeground() {
			t.Errorf("%v is %v, want %v", wait, got, want)
		}
	}
}

func TestTheViewOpensOnTheTreeIfSomethingWaits(t *testing.T) {
	open(t, Options{First: mixedSnapshot()}, 80, 24).wants("[2] TREE")
	quiet := emptySnapshot()
	u := open(t, Options{First: quiet}, 80, 24)
	u.wants("[1] KEYS", "Nothing waits. No locks held.")
	u.snapshotArrives(mixedSnapshot()) // what is on the screen stays there
	u.wants("[1] KEYS", "4711 payments, idle in transaction")
	election := pileUp(2)
	election.Locks = election.Locks[:1]
	election.Locks[0].Kind = "leader"
	for i := range election.Locks[0].Waiters {
		election.Locks[0].Waiters[i].Expected = true
	}
	open(t, Options{First: election}, 80, 24).wants("[1] KEYS", "Nothing waits but 2 for elections")
}

func TestAllWaitsAreAskedForByAKey(t *testing.T) {
	var asked []bool
	o := Options{First: mixedSnapshot(), Take: func(_ context.Context, all bool, _ monitor.SessionID) (*monitor.Snapshot, error) {
		asked = append(asked, all)
		return mixedSnapshot(), nil
	}}
	u := start(t, o, 80, 24)
	under := u.m.takeSnapshot(false) // under way when the key is pressed
	u.presses("a")
	u.wants("all waits")
	u.m.taking = true
	u.send(under())
	if !u.m.taking {
		t.Error("the snapshot that was under way is kept")
	}
	u.send(u.m.takeSnapshot(true)())
	if u.m.taking || !slices.Equal(asked, []bool{false, true}) {
		t.Errorf("asked for all: %v", asked)
	}
	u.presses("a")
	u.wantsNot("all waits")
	u = start(t, Options{First: mixedSnapshot(), Seek: func(time.Duration) error { return nil }}, 80, 24)
	u.presses("a")
	if u.m.all {
		t.Error("a recording has other waits than those that were recorded")
	}
	open(t, Options{First: mixedSnapshot(), All: true}, 80, 24).wants("all waits")
}

// Waits without an advisory lock have a tree of their own.
func TestTheTreeHasWaitsOfEveryKind(t *testing.T) {
	s := &scene{*emptySnapshot()}
	for pid := range int32(30) {
		s.other("orders", 100+pid, 12, hardBlocker(9))
	}
	s.OtherSessions = []monitor.Session{s.session(9)}
	u := open(t, Options{First: &s.Snapshot, All: true}, 100, 24)
	u.wants("[2] TREE", "9 s9", "└─ ▸ 30 waiters", "relation orders", "30 waiters (30 for other locks)")
	counted := emptySnapshot()
	counted.WaitsElsewhere = 30
	u = open(t, Options{First: counted}, 100, 24)
	u.wants("[1] KEYS")
	u.presses("a")
	u.send(snapshotMsg{snapshot: counted}) // was under way
	u.wants("[1] KEYS")
	u.send(snapshotMsg{snapshot: &s.Snapshot, all: true})
	u.wants("[2] TREE", "relation orders")
	u = open(t, Options{First: counted}, 100, 24)
	u.wants("30 sessions wait without an advisory lock", "a: 30 more for other locks", "for other locks wait 30 sessions (a shows them)")
}

// What the filter of the command line excludes is on no page.
func TestTheFilterOfTheCommandLineHoldsForAllPages(t *testing.T) {
	o := Options{First: withRows(mixedSnapshot())}
	o.Filter.Keys = []pglock.Key{pglock.Int64Key(7)}
	u := open(t, o, 120, 40)
	for _, page := range []string{"1", "2"} {
		u.presses(page)
		u.wantsNot("invoice:42", "payments", "billing 4711")
	}
}

func TestTheHeadlineFits(t *testing.T) {
	for _, test := range []struct {
		width, height int
		want          []string
	}{
		{40, 12, []string{" Terminate 4711 payments, idle in trans…", " 4 waiters"}},
		{80, 16, []string{" Terminate 4711 payments, idle in transaction for 5m00s, holds invoice:42", "   (excl): frees 2, longest wait 12s; 2 others wait", " 4 waiters"}},
		{200, 60, []string{"frees 2, longest wait 12s; 2 others wait", "   ran: SELECT work()", "   pglock terminate 4711@2026-11-20T11:00:00Z", " 4 waiters"}},
	} {
		u := open(t, Options{First: mixedSnapshot(), End: sendNothing}, test.width, test.height)
		at := 0
		for _, want := range test.want {
			i := strings.Index(u.screen()[at:], want)
			if i < 0 {
				t.Fatalf("%d×%d does not show %q:\n%s", test.width, test.height, want, u.screen())
			}
			at += i
		}
	}
	u := open(t, Options{First: mixedSnapshot(), End: sendNothing}, 44, 40)
	u.wants("ran: SELECT work()")
	u.wantsNot("pglock terminate") // half of it would end something else
}

// A recording has no statements, but the states.
func TestTheTreeOfARecordingShowsStates(t *testing.T) {
	s := &scene{*emptySnapshot()}
	s.lock(1, 9)
	s.wait(1, 10, 3, hardBlocker(9))
	waiter := &s.Locks[0].Waiters[0]
	waiter.Hidden, waiter.Query, waiter.State = []string{"query"}, "", "active"
	u := open(t, Options{First: &s.Snapshot}, 80, 24)
	u.wants("[2] TREE", "active")
	u.wantsNot("(hidden)")
}
