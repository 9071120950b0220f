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

// selected is the line on which the cursor is.
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

// reordered is the workshop after a session has waited longer for another key.
func reordered() *monitor.Snapshot {
	s := workshop()
	i := slices.IndexFunc(s.Locks, func(l monitor.Lock) bool { return l.Key == "@99" })
	s.Locks[i].Waiters = []monitor.Waiter{waits(session(4800, "new"), monitor.ModeExclusive, time.Hour)}
	return s
}

func TestTheSelectionStaysWithItsRow(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.wantsSelected("invoice:42")
	u.sees(reordered())
	u.wantsSelected("@99") // nothing was chosen yet: the top is
	u.presses("down")
	u.wantsSelected("invoice:42")
	u.sees(workshop())
	u.wantsSelected("invoice:42")
	u.presses("S")
	u.wantsSelected("invoice:42")
	u.sees(deadlock()) // does not have it
	u.wantsSelected("!@")
	u.presses("home")
	u.sees(reordered())
	u.presses("S")
	u.wantsSelected("@99")
}

func TestAFollowedKeyStaysInView(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.presses("f", "/nothing", "enter")
	u.wants("following invoice:42: held by 4711 payments", "2 waiting", "nothing matches the filter")
	u.sees(deadlock())
	u.wants("following invoice:42: free", "0 waiting")
	u.sees(workshop())
	u.presses("l")
	u.wants("invoice:42: free, before held by 4711 payments", "invoice:42: held by 4711 payments, before free")
	u.presses("esc", "esc", "f")
	u.wantsNot("following")
	u.presses("3", "home", "f")
	u.wants("there is no key to follow")
}

func TestAFilterCountsWhileItIsTyped(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.presses("/inv")
	u.wants("/inv", "invoice:42")
	u.wantsNot("@7/-42")
	u.presses("(")
	u.wants("missing closing )", "invoice:42")
	u.presses("enter") // does nothing as long as it is wrong
	u.wants("missing closing )")
	u.presses("backspace", "enter")
	u.wants("filter /inv/  4 keys not shown")
	u.presses("/x", "esc")
	u.wants("filter /inv/")
	u.presses("esc")
	u.wants("@7/-42")
	u.wantsNot("filter /")
	u.send(tea.PasteMsg{Content: "t"}) // is not a key: it does not ask about terminating
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
		b := arrange(workshop(), question{filter: compiled})
		var got []string
		for _, r := range b.rows {
			got = append(got, keyCell(Model{board: b}, r))
		}
		if !slices.Equal(got, want) {
			t.Errorf("/%s/ finds %q, want %q", pattern, got, want)
		}
	}
}

func TestTheTreeOfWaiters(t *testing.T) {
	rows := func(s *monitor.Snapshot, q question) (lines []string) {
		q.page = pageTree
		b := arrange(s, q)
		for _, r := range b.rows {
			lines = append(lines, branchCell(Model{board: b}, r))
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
	if got := rows(workshop(), question{}); !slices.Equal(got, whole) {
		t.Errorf("the tree is\n%s", strings.Join(got, "\n"))
	}
	pattern, _ := compile("late")
	if got := rows(workshop(), question{filter: pattern}); !slices.Equal(got, whole[:5]) {
		t.Errorf("the filter leaves\n%s", strings.Join(got, "\n"))
	}
	circle := []string{"4711 transfer 1", "└─ 4712 transfer 2", "   └─ ↻4711 transfer 1"}
	if got := rows(deadlock(), question{}); !slices.Equal(got, circle) {
		t.Errorf("a deadlock is\n%s", strings.Join(got, "\n"))
	}
	gone := deadlock() // a blocker that the snapshot does not have
	gone.Locks[0].Waiters[0].BlockedBy = []monitor.Blocker{softly(9)}
	behind := []string{"9 ?", "└─ ~4712 transfer 2", "   └─ 4711 transfer 1"}
	if got := rows(gone, question{}); !slices.Equal(got, behind) {
		t.Errorf("behind an unknown session stand\n%s", strings.Join(got, "\n"))
	}
}

// A deadlock comes before a queue that is longer: it does not end by itself.
func TestADeadlockIsFirstInTheTree(t *testing.T) {
	s := workshop()
	third, fourth := lock(pglock.Int64Key(3)), lock(pglock.Int64Key(4))
	a, b := session(5001, "transfer 1"), session(5002, "transfer 2")
	third.Holders, fourth.Holders = []monitor.Holder{holds(a, monitor.ModeExclusive)}, []monitor.Holder{holds(b, monitor.ModeExclusive)}
	fourth.Waiters = []monitor.Waiter{waits(a, monitor.ModeExclusive, time.Second, hardly(5002))}
	third.Waiters = []monitor.Waiter{waits(b, monitor.ModeExclusive, time.Second, hardly(5001))}
	s.Locks = append(s.Locks, third, fourth)
	s.Cycles = []monitor.Cycle{{Certain: true, Steps: []monitor.Step{{PID: 5001, Key: "@4", Database: "shop", BlockedBy: 5002},
		{PID: 5002, Key: "@3", Database: "shop", BlockedBy: 5001}}}}
	for certain, want := range map[bool]int32{true: 5001, false: 4711} {
		s.Cycles[0].Certain = certain
		if first := arrange(s, question{page: pageTree}).rows[0]; first.person.PID != want {
			t.Errorf("with a deadlock that is certain (%v), the tree begins with %d, want %d", certain, first.person.PID, want)
		}
	}
}

func TestOrders(t *testing.T) {
	for number, all := range orders {
		for i, o := range all {
			var up, down []identity
			for _, reversed := range []bool{false, true} {
				q := question{page: page(number)}
				q.order[number], q.reversed[number] = i, reversed
				b := arrange(workshop(), q)
				for _, r := range b.rows {
					if reversed {
						down = append(down, r.id)
					} else {
						up = append(up, r.id)
					}
				}
			}
			if len(up) == 0 || len(up) != len(down) || slices.Equal(up, down) {
				t.Errorf("page %d by %s: %v and reversed %v", number, o.name, up, down)
			}
		}
	}
}

func TestPausingKeepsTheSnapshot(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.presses("r") // a snapshot is under way
	u.presses("p")
	u.sees(deadlock())
	u.wants("PAUSED", "invoice:42")
	u.send(tick{u.m.pace})
	if u.command != nil {
		t.Error("it looks again although it is paused")
	}
	u.presses("r")
	if u.command == nil || !u.m.taking {
		t.Error("it does not look when it is told to")
	}
	u.send(taken{snapshot: deadlock(), wanted: true})
	u.wants("PAUSED", "DEADLOCK")
	u.presses("p")
	if u.command == nil || !u.m.taking {
		t.Error("it does not look again afterwards")
	}
	u.wantsNot("PAUSED")
}

func TestOneSnapshotIsTakenAtATime(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.send(tick{u.m.pace})
	if !u.m.taking {
		t.Fatal("it does not look")
	}
	for range 3 { // the server is slow
		old := u.m.pace
		u.send(tick{old})
		if u.command == nil || u.m.pace == old {
			t.Fatal("the clock has stopped")
		}
		u.send(tick{old}) // came too late
		if u.command != nil {
			t.Fatal("a clock of before counts")
		}
	}
	u.sees(workshop())
	if u.m.taking {
		t.Error("the snapshot has not ended")
	}
}

func TestTheIntervalChanges(t *testing.T) {
	u := start(t, Options{First: workshop(), Interval: 1500 * time.Millisecond}, 80, 24)
	u.presses("+")
	u.wants("every 2s")
	u.presses("--")
	u.wants("every 500ms")
	u.presses("------")
	u.wants("every 100ms")
	u.presses("+++++++++++")
	u.wants("every 5m ")
}

func TestALostServerIsShownAndRetried(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	for range 2 {
		u.send(taken{err: errors.New("connection refused")})
	}
	u.wants("LOST no answer since 12:00:00 UTC, trying again: connection refused", "invoice:42")
	u.send(tick{u.m.pace})
	if !u.m.taking {
		t.Error("it does not try again")
	}
	u.sees(workshop())
	u.wantsNot("LOST")
	u.presses("l")
	u.wants("no answer: connection refused", "the server answers again")
	if n := strings.Count(u.screen(), "no answer"); n != 1 {
		t.Errorf("one outage is logged %d times", n)
	}
}

func TestAnswersComeInTheirOwnTime(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	press := func(r rune) {
		next, _ := u.m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		u.m = next.(Model)
	}
	press('2') // is being worked on
	press('s')
	press('3')
	u.wants("[1 keys]")
	u.answer()
	if !u.m.arranging {
		t.Fatal("the last question was forgotten")
	}
	u.answer()
	u.wants("[3 sessions]")
	if u.m.arranging {
		t.Error("there is still something to answer")
	}
}

func TestOnlyChosenKeysAreShown(t *testing.T) {
	only := view.Filter{Keys: []pglock.Key{pglock.Int64Key(99), pglock.NewKey("invoice:42")}, Waiting: true}
	u := start(t, Options{First: workshop(), Filter: only}, 80, 24)
	u.wants("invoice:42", "2 keys", "contended only")
	u.presses("w")
	u.wants("@99")
	u.wantsNot("@7/-42", "contended only")
	u.sees(deadlock())
	u.wants("no session holds or waits for the chosen keys; 2 others not shown")
}

func TestTheLogStaysAtItsEnd(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	outages := func(first, last int) {
		for i := first; i <= last; i++ {
			u.send(taken{err: fmt.Errorf("outage %d.", i)})
			u.sees(workshop())
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
	for range longestLog {
		u.m = u.m.say("something else")
	}
	outages(46, 46)
	u.wants("outage 46.", fmt.Sprintf("of %d", longestLog))
}

func TestQuitting(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"?", "ctrl+c"}, {"enter", "q", "q"}} {
		u := start(t, Options{First: workshop()}, 80, 24)
		u.presses(keys...)
		if u.command == nil || reflect.TypeOf(u.command()) != reflect.TypeOf(tea.QuitMsg{}) {
			t.Errorf("%q do not quit", keys)
		}
	}
}

func TestCopying(t *testing.T) {
	for _, test := range []struct {
		keys []string
		want string
	}{{[]string{"y"}, "copied invoice:42"}, {[]string{"2", "down", "y"}, "copied 4712"},
		{[]string{"enter", "y"}, "copied the text of this pane"}, {[]string{"/nothing", "enter", "y"}, "nothing to copy"}} {
		u := start(t, Options{First: workshop()}, 80, 24)
		u.presses(test.keys...)
		u.wants(test.want)
	}
}

func TestTrendsForgetWhatIsQuiet(t *testing.T) {
	var ts trends
	ts = ts.with(workshop())
	at := placeOf(&workshop().Locks[2])
	if got := ts.of(at).sparkline(3); got != "  █" {
		t.Errorf("the trend is %q", got)
	}
	for range 3 {
		ts = ts.with(deadlock())
	}
	if got := ts.of(at).sparkline(5); got != " █▁▁▁" {
		t.Errorf("the trend is %q", got)
	}
	for range remembered {
		ts = ts.with(&monitor.Snapshot{TakenAt: noon})
	}
	if len(ts.locks) != 0 {
		t.Errorf("%d quiet locks are remembered", len(ts.locks))
	}
}

func TestSparklines(t *testing.T) {
	var s series
	for _, value := range []int64{0, 1, 50, 99, 100} {
		s = s.with(value)
	}
	if got := s.sparkline(7); got != "  ▁▂▅██" {
		t.Errorf("the sparkline is %q", got)
	}
}

func TestHundredThousandLocks(t *testing.T) {
	u := start(t, Options{First: crowd(100_000)}, 100, 24)
	u.wants("100,000 keys  100,000 holders  200 waiters", "1-17 of 201")
	u.presses("u")
	u.wants("1-17 of 100,000")
	u.wantsSelected("job:99500")
	u.presses("end")
	u.wantsSelected("job:99999")
	u.presses("/")
	u.send(tea.PasteMsg{Content: "job:.*99$"})
	u.presses("enter")
	u.wants("99,000 keys not shown", "984-1,000 of 1,000")
	u.presses("esc", "2")
	u.wants("1000 worker", "├─ 2015 client", "1-17 of 201")
}

// Text that is out of place after a change of the size is redrawn once.
func TestTheScreenIsDrawnAnewWhenItsSizeHasSettled(t *testing.T) {
	u := start(t, Options{First: &monitor.Snapshot{TakenAt: noon}}, 80, 24)
	if u.command != nil {
		t.Error("something follows the first size, which is no change")
	}
	clears := func() bool {
		return u.command != nil && reflect.TypeOf(u.command()) == reflect.TypeOf(tea.ClearScreen())
	}
	u.send(tea.WindowSizeMsg{Width: 31, Height: 7})
	first := u.command
	u.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	second := u.command
	if u.send(first()); u.command != nil {
		t.Error("something follows a size that has changed again")
	}
	if u.send(second()); !clears() {
		t.Error("the screen is not drawn anew")
	}
}

// BenchmarkHundredThousandLocks prints what the parts of the view cost with 100,000 locks: a key with the screen that it
// leads to, the arrival of a snapshot and, which happens beside the keys, arranging the rows.
func BenchmarkHundredThousandLocks(b *testing.B) {
	s := crowd(100_000)
	u := start(b, Options{First: s}, 120, 40)
	down := tea.KeyPressMsg(namedKeys["down"])
	b.Run("key", func(b *testing.B) {
		m := u.m
		for b.Loop() {
			next, _ := m.Update(down)
			m = next.(Model)
			m.View()
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			u.m.Update(taken{snapshot: s})
		}
	})
	pattern, err := compile("job:.*99$|client")
	if err != nil {
		b.Fatal(err)
	}
	for name, q := range map[string]question{"sort": {}, "filter": {filter: pattern}, "by-key": {order: [pages]int{3}},
		"tree": {page: pageTree}, "sessions": {page: pageSessions}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				arrange(s, q)
			}
		})
	}
}

func TestAnOutageLeavesAGapAndSaysHowLong(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.send(taken{err: errors.New("connection refused")})
	later := workshop()
	later.TakenAt = noon.Add(3*time.Minute + 12*time.Second)
	u.sees(later)
	u.wants("the server answers again, after 3m12s", "waiters                     █ █")
}
