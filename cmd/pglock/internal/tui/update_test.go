package tui

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// selected returns the selected line.
func (u *user) selected() string {
	for line := range strings.Lines(u.screen()) {
		if strings.HasPrefix(line, ">") {
			return strings.TrimSpace(line[1:])
		}
	}
	return ""
}

func (u *user) wantsSelected(prefix string) {
	u.t.Helper()
	if got := u.selected(); !strings.HasPrefix(got, prefix) {
		u.t.Errorf("%q is selected, want %s\n%s", got, prefix, u.screen())
	}
}

// reordered returns mixedSnapshot with a longer wait for another key.
func reordered() *monitor.Snapshot {
	s := mixedSnapshot()
	i := slices.IndexFunc(s.Locks, func(l monitor.Lock) bool { return l.Key == "@99" })
	s.Locks[i].Waiters = []monitor.Waiter{waits(session(4800, "new"), "exclusive", time.Hour)}
	return s
}

func TestTheSelectionStaysWithItsRow(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.wantsSelected("invoice:42")
	u.snapshotArrives(reordered())
	u.wantsSelected("@99") // nothing was chosen yet, so the top row is selected
	u.presses("down")
	u.wantsSelected("invoice:42")
	u.snapshotArrives(mixedSnapshot())
	u.wantsSelected("invoice:42")
	u.snapshotArrives(deadlockSnapshot()) // does not have it
	u.wantsSelected("!@")
	u.presses("home")
	u.snapshotArrives(reordered())
	u.wantsSelected("@99")
}

func TestAFilterAppliesWhileItIsTyped(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("/inv")
	u.wants("/inv", "invoice:42")
	u.wantsNot("@7/-42")
	u.presses("(")
	u.wants("missing closing )", "invoice:42")
	u.presses("enter") // does nothing while the pattern is invalid
	u.wants("missing closing )")
	u.presses("backspace", "enter")
	u.wants("filter /inv/  4 keys not shown")
	u.presses("/x", "esc")
	u.wants("filter /inv/")
	u.presses("esc")
	u.wants("@7/-42")
	u.wantsNot("filter /")
	u.send(tea.PasteMsg{Content: "t"}) // pasted text is not a key: it does not terminate
	u.presses("/")
	u.send(tea.PasteMsg{Content: "INVOICE"})
	u.wants("/INVOICE", "nothing matches the filter")
	u.presses("ctrl+c")
	u.wants("invoice:42")
}

func TestAFilterLooksAtKeysAndSessions(t *testing.T) {
	for pattern, want := range map[string][]string{
		"invoice":         {"invoice:42"},
		"goose":           {"probably goose migrations @4097083626"},
		"@409.*626$":      {"probably goose migrations @4097083626"},
		"billing":         {"@7 in billing"},
		"LATE":            nil,
		"late":            {"@7/-42"},
		"^4713$":          {"invoice:42", "@7/-42"},
		"idle in trans":   {"invoice:42"},
		"10.0.0.7":        {"invoice:42", "@7/-42", "@7 in billing"},
		"order 7":         {"@99"},
		"select work|xyz": {"invoice:42", "@7/-42", "@7 in billing"},
	} {
		compiled, err := compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		b := arrange(mixedSnapshot(), tableQuery{filter: compiled})
		var got []string
		for _, r := range b.rows {
			got = append(got, keyCell(Model{table: b}, r))
		}
		if !slices.Equal(got, want) {
			t.Errorf("/%s/ finds %q, want %q", pattern, got, want)
		}
	}
}

func TestTheTreeOfWaiters(t *testing.T) {
	rows := func(s *monitor.Snapshot, q tableQuery) (lines []string) {
		q.page = pageTree
		b := arrange(s, q)
		for _, r := range b.rows {
			lines = append(lines, treeCell(Model{table: b}, r))
		}
		return lines
	}
	whole := []string{
		"4711 payments",
		"├─ 4712 worker-1",
		"└─ 4713 worker-2",
		"   └─ 4715 writer +1",
		"      └─ ~4716 late reader",
		"4714 reader",
	}
	if got := rows(mixedSnapshot(), tableQuery{}); !slices.Equal(got, whole) {
		t.Errorf("the tree is\n%s", strings.Join(got, "\n"))
	}
	pattern, _ := compile("late")
	if got := rows(mixedSnapshot(), tableQuery{filter: pattern}); !slices.Equal(got, whole[:5]) {
		t.Errorf("the filter leaves\n%s", strings.Join(got, "\n"))
	}
	circle := []string{"4711 transfer 1", "└─ 4712 transfer 2", "   └─ ↻4711 transfer 1"}
	if got := rows(deadlockSnapshot(), tableQuery{}); !slices.Equal(got, circle) {
		t.Errorf("a deadlock is\n%s", strings.Join(got, "\n"))
	}
	gone := deadlockSnapshot() // a blocker that is not in the snapshot
	gone.Locks[0].Waiters[0].BlockedBy = []monitor.Blocker{softBlocker(9)}
	behind := []string{"9 ?", "└─ ~4712 transfer 2", "   └─ 4711 transfer 1"}
	if got := rows(gone, tableQuery{}); !slices.Equal(got, behind) {
		t.Errorf("the tree below an unknown session is\n%s", strings.Join(got, "\n"))
	}
}

// A deadlock comes before a longer queue.
func TestADeadlockIsFirstInTheTree(t *testing.T) {
	s := mixedSnapshot()
	third, fourth := lock(pglock.Int64Key(3)), lock(pglock.Int64Key(4))
	a, b := session(5001, "transfer 1"), session(5002, "transfer 2")
	third.Holders, fourth.Holders = []monitor.Holder{holds(a, "exclusive")}, []monitor.Holder{holds(b, "exclusive")}
	fourth.Waiters = []monitor.Waiter{waits(a, "exclusive", time.Second, hardBlocker(5002))}
	third.Waiters = []monitor.Waiter{waits(b, "exclusive", time.Second, hardBlocker(5001))}
	s.Locks = append(s.Locks, third, fourth)
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 5001, Key: "@4", Database: "shop", BlockedBy: 5002},
		{PID: 5002, Key: "@3", Database: "shop", BlockedBy: 5001}}}}
	for certain, want := range map[bool]int32{true: 5001, false: 4711} {
		s.Cycles[0].Certain = certain
		if first := arrange(s, tableQuery{page: pageTree}).rows[0]; first.session.PID != want {
			t.Errorf("with a deadlock that is certain (%v), the tree begins with %d, want %d", certain, first.session.PID, want)
		}
	}
}

func TestPausingKeepsTheSnapshot(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("r") // a snapshot is under way
	u.presses("p")
	u.snapshotArrives(deadlockSnapshot())
	u.wants("PAUSED", "invoice:42")
	u.send(tickMsg{u.m.tickID})
	if u.command != nil {
		t.Error("a snapshot is taken while it is paused")
	}
	u.presses("r")
	if u.command == nil || !u.m.taking {
		t.Error("no snapshot is taken after r")
	}
	u.send(snapshotMsg{snapshot: deadlockSnapshot(), wanted: true})
	u.wants("PAUSED", "Deadlock for 1.0s: ")
	u.presses("p")
	if u.command == nil || !u.m.taking {
		t.Error("no snapshot is taken after the pause")
	}
	u.wantsNot("PAUSED")
}

func TestOneSnapshotIsTakenAtATime(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.send(tickMsg{u.m.tickID})
	if !u.m.taking {
		t.Fatal("no snapshot is taken")
	}
	for range 3 { // the server is slow
		old := u.m.tickID
		u.send(tickMsg{old})
		if u.command == nil || u.m.tickID == old {
			t.Fatal("there is no next tick")
		}
		u.send(tickMsg{old}) // an earlier tick
		if u.command != nil {
			t.Fatal("an earlier tick counts")
		}
	}
	u.snapshotArrives(mixedSnapshot())
	if u.m.taking {
		t.Error("the snapshot still counts as under way")
	}
}

func TestALostServerIsShownAndRetried(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	for range 2 {
		u.send(snapshotMsg{err: errors.New("connection refused")})
	}
	u.wants("LOST", "Unknown since 12:00:00 UTC: no answer, trying again: connection refused", "invoice:42")
	u.wantsNot("Terminate") // it may be over
	u.send(tickMsg{u.m.tickID})
	if !u.m.taking {
		t.Error("no other snapshot is taken")
	}
	u.snapshotArrives(mixedSnapshot())
	u.wantsNot("LOST")
	u.presses("l")
	u.wants("no answer: connection refused", "the server answers again")
	if n := strings.Count(u.screen(), "no answer"); n != 1 {
		t.Errorf("one outage is logged %d times", n)
	}
}

// A server that hangs is lost after three intervals, long before the attempt is given up.
func TestASnapshotThatIsOldIsNotThePresent(t *testing.T) {
	u := start(t, Options{First: emptySnapshot(), Interval: time.Second}, 80, 24)
	for i, lost := range []bool{false, false, false, true, true} {
		u.send(tickMsg{u.m.tickID})
		if got := u.m.lost != nil; got != lost {
			t.Errorf("after %d intervals it is lost: %v", i, got)
		}
	}
	u.wants("LOST", "Unknown since 12:00:00 UTC: no answer for 4.0s")
	u.wantsNot("Nothing waits")
	u.snapshotArrives(mixedSnapshot())
	u.wantsNot("LOST")
}

func TestTheTableIsArrangedInTheBackground(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	press := func(r rune) {
		next, _ := u.m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		u.m = next.(Model)
	}
	press('2') // starts arranging
	press('1')
	press('2')
	u.wants("[1] KEYS")
	u.arrange()
	if !u.m.arranging {
		t.Fatal("the last query was not run")
	}
	u.arrange()
	u.wants("[2] TREE")
	if u.m.arranging {
		t.Error("another query is running")
	}
}

func TestOnlyChosenKeysAreShown(t *testing.T) {
	only := view.Filter{Keys: []pglock.Key{pglock.Int64Key(99), pglock.NewKey("invoice:42")}}
	u := start(t, Options{First: mixedSnapshot(), Filter: only}, 80, 24)
	u.wants("invoice:42", "2 keys", "@99")
	u.wantsNot("@7/-42")
	u.snapshotArrives(deadlockSnapshot())
	u.wants("no session holds or waits for the chosen keys; 2 others not shown")
}

func TestTheLogStaysAtItsEnd(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	outages := func(first, last int) {
		for i := first; i <= last; i++ {
			u.send(snapshotMsg{err: fmt.Errorf("outage %d.", i)})
			u.snapshotArrives(mixedSnapshot())
		}
	}
	outages(1, 30)
	u.presses("l")
	u.wants("outage 30.")
	outages(31, 40)
	u.wants("outage 40.")
	u.presses("home")
	outages(41, 45)
	u.wants("outage 1.")
	u.presses("end")
	u.wants("outage 45.")
	for range maxLog {
		u.m = u.m.addLog("something else")
	}
	outages(46, 46)
	u.wants("outage 46.", fmt.Sprintf("of %d", maxLog))
}

func TestQuitting(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"?", "ctrl+c"}, {"enter", "q", "q"}} {
		u := start(t, Options{First: mixedSnapshot()}, 80, 24)
		u.presses(keys...)
		if u.command == nil || reflect.TypeOf(u.command()) != reflect.TypeOf(tea.QuitMsg{}) {
			t.Errorf("%q do not quit", keys)
		}
	}
}

func TestTwentyThousandLocks(t *testing.T) {
	u := start(t, Options{First: manyLocks(20_000)}, 100, 24)
	u.wants("40 waiters, longest wait 19s  20,000 keys  20,000 holders", "1-16 of 20,000")
	u.wantsSelected("job:19500")
	u.presses("end")
	u.wantsSelected("job:19999")
	u.presses("/")
	u.send(tea.PasteMsg{Content: "job:.*99$"})
	u.presses("enter")
	u.wants("19,800 keys not shown", "185-200 of 200")
	u.presses("esc", "2")
	u.wants("1000 worker", "├─ 2039 client", "1-16 of 41")
}

// After the last of several resizes the screen is redrawn once.
func TestTheScreenIsRedrawnAfterAResize(t *testing.T) {
	u := open(t, Options{First: &monitor.Snapshot{TakenAt: noon}}, 80, 24)
	if u.command != nil {
		t.Error("the first size causes a redraw")
	}
	clears := func() bool {
		return u.command != nil && reflect.TypeOf(u.command()) == reflect.TypeOf(tea.ClearScreen())
	}
	u.send(tea.WindowSizeMsg{Width: 31, Height: 7})
	first := u.command
	u.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	second := u.command
	if u.send(first()); u.command != nil {
		t.Error("an outdated resize causes a redraw")
	}
	if u.send(second()); !clears() {
		t.Error("the screen is not redrawn")
	}
}
