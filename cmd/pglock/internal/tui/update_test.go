package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// endNothing is the dialog of a test that does not run it.
func endNothing(io.Reader, string, monitor.SessionID) error {
	return errors.New("a test has sent a signal")
}

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
	s.Locks[0].Waiters = []monitor.Waiter{waits(session(4800, "new"), "exclusive", time.Hour)}
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
	u.wantsSelected("@")
	u.presses("home")
	u.snapshotArrives(reordered())
	u.wantsSelected("@99")
	u = open(t, Options{First: pileUp(50)}, 120, 40)
	u.presses("down")
	u.wantsSelected("└─ 50 waiters")
	later := pileUp(50)
	later.Locks[0].Waiters = append(later.Locks[0].Waiters, waits(session(5, "s5"), "exclusive", 0, hardBlocker(10)))
	u.snapshotArrives(later)
	u.wantsSelected("└─ 51 waiters")
}

func TestTheViewOpensOnTheTreeIfSomethingWaits(t *testing.T) {
	open(t, Options{First: mixedSnapshot()}, 80, 24).wants("[2] TREE")
	u := open(t, Options{First: emptySnapshot()}, 80, 24)
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

func TestAPileUpIsOneRow(t *testing.T) {
	u := open(t, Options{First: pileUp(200)}, 120, 40)
	u.wants("10 s10", "└─ 200 waiters", "3m20s", "1000 s1000 to 1199 s1199", "20 s20", "└─ 21 s21")
	u.wantsNot("1001 s1001")
	u.presses("u")
	u.wants("├─ 1000 s1000", "├─ 1001 s1001", "of 203")
	u.presses("u")
	u.wantsNot("1001 s1001")
	u.presses("/s1017", "enter") // a waiter in the fold, with those that block it
	u.wants("10 s10", "├─ 1017 s1017")
	u.wantsNot("20 s20")
	u = open(t, Options{First: pileUp(fold.Above)}, 120, 40)
	u.wants("├─ 1000 s1000", "└─ 1004 s1004")
}

// Candidates of an election stand below the others' incident, and their leader is no culprit.
func TestALeaderIsNoRoot(t *testing.T) {
	s := pileUp(3)
	s.Locks[0].Kind = "leader"
	for i := range s.Locks[0].Waiters {
		s.Locks[0].Waiters[i].Expected = true
	}
	u := open(t, Options{First: s}, 120, 40)
	u.wantsSelected("20 s20")
	u.wants("20 s20, active for 10s, holds @2 (excl): frees 1")
	for _, r := range u.m.rows {
		if pid := r.branch.First().PID; r.isRoot() != (pid == 20) {
			t.Errorf("session %d is a root: %v", pid, r.isRoot())
		}
	}
}

func TestAFilterAppliesWhileItIsTyped(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("/INVx")
	u.wants("/INVx", "nothing matches the filter")
	u.presses("backspace")
	u.wants("invoice:42")
	u.wantsNot("@7/-42")
	u.presses("enter")
	u.wants(`filter "INV"`)
	u.presses("2")
	u.wants("4711 payments", "└─ 4713 worker-2")
	u.wantsNot("4714 reader")
	u.presses("1", "esc")
	u.wants("@7/-42")
	u.wantsNot("filter \"")
	u.send(tea.PasteMsg{Content: "t"}) // pasted text is not a key: it does not terminate
	u.presses("/")
	u.send(tea.PasteMsg{Content: "goose"})
	u.wants("/goose", "probably goose")
	u.wantsNot("@7/-42")
	u.presses("ctrl+c")
	u.wants("@7/-42")
}

// A recording has no statements, but the states.
func TestTheTreeOfARecordingShowsStates(t *testing.T) {
	s := &scene{*emptySnapshot()}
	s.lock(1, 9)
	s.wait(1, 10, 3, hardBlocker(9))
	waiter := &s.Locks[0].Waiters[0]
	waiter.Hidden, waiter.Query, waiter.State = []string{"query"}, "", "active"
	u := open(t, Options{First: &s.Snapshot}, 80, 24)
	u.wants("[2] TREE", "active 10s")
	u.wantsNot("(hidden)")
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
	u.send(snapshotMsg{err: errors.New("connection refused")})
	u.wants("LOST", "Unknown since 12:00:00 UTC: no answer, trying again: connection refused", "invoice:42")
	u.wantsNot("Terminate") // it may be over
	u.send(tickMsg{u.m.tickID})
	if !u.m.taking {
		t.Error("no other snapshot is taken")
	}
	u.snapshotArrives(mixedSnapshot())
	u.wants("the server answers again")
	u.wantsNot("LOST")
	u.presses("down")
	u.wantsNot("the server answers again")
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

func TestOnlyChosenKeysAreShown(t *testing.T) {
	only := view.Filter{Keys: []pglock.Key{pglock.Int64Key(99), pglock.NewKey("invoice:42")}}
	u := start(t, Options{First: mixedSnapshot(), Filter: only}, 80, 24)
	u.wants("invoice:42", "2 keys", "@99")
	u.presses("2")
	u.wantsNot("@7/-42")
	u.snapshotArrives(deadlockSnapshot())
	u.wants("no advisory locks match the filters; 2 keys not shown")
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

func TestThousandsOfLocks(t *testing.T) {
	u := start(t, Options{First: manyLocks(3_000)}, 100, 24)
	u.wants("3000 keys, 3000 holders, 6 waiters", "1-16 of 3,000")
	u.wantsSelected("job:2500")
	u.presses("end")
	u.wantsSelected("job:2999")
	u.presses("/job:299", "enter")
	u.wants("job:299 ", "job:2990 ", "job:2999 ")
	u.wantsNot("job:2989")
	u.presses("esc", "2")
	u.wants("1000 worker", "├─ 2005 client")
}

// After the last of several resizes the screen is redrawn once.
func TestTheScreenIsRedrawnAfterAResize(t *testing.T) {
	u := open(t, Options{First: &monitor.Snapshot{TakenAt: noon}}, 80, 24)
	if u.command != nil {
		t.Error("the first size causes a redraw")
	}
	u.send(tea.WindowSizeMsg{Width: 31, Height: 7})
	first := u.command
	u.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	second := u.command
	if u.send(first()); u.command != nil {
		t.Error("an outdated resize causes a redraw")
	}
	if u.send(second()); u.command == nil || reflect.TypeOf(u.command()) != reflect.TypeOf(tea.ClearScreen()) {
		t.Error("the screen is not redrawn")
	}
}

// A signal leaves the terminal to a dialog about the selected session or process, and then a new snapshot is taken.
func TestWhichSessionIsSignalled(t *testing.T) {
	for _, test := range []struct {
		keys   []string
		signal string
		of     monitor.SessionID
		says   string // why there is no dialog
	}{
		{[]string{"1", "down", "t"}, "terminate", monitor.SessionID{PID: 4711}, ""},
		{[]string{"1", "down", "down", "t"}, "", monitor.SessionID{}, "choose one session"},
		{[]string{"enter", "t"}, "terminate", monitor.SessionID{PID: 4711}, ""},
		{[]string{"down", "c"}, "cancel", monitor.SessionID{PID: 4712}, ""},
		{[]string{"/nothing", "enter", "t"}, "", monitor.SessionID{}, "choose one session"},
		{[]string{"1", "/order 7", "enter", "t"}, "", monitor.SessionID{}, "it has no process to signal: ROLLBACK PREPARED 'order 7'"},
		{[]string{"1", "/web-1", "enter", "t"}, "terminate", monitor.SessionID{Holder: billingHolder}, ""},
	} {
		t.Run(fmt.Sprint(test.keys), func(t *testing.T) {
			var signal string
			var of monitor.SessionID
			o := Options{First: withRows(mixedSnapshot()), Take: func(context.Context) (*monitor.Snapshot, error) { return mixedSnapshot(), nil },
				End: func(_ io.Reader, s string, id monitor.SessionID) error {
					signal, of = s, id
					return errors.New("it\nfailed")
				}}
			u := open(t, o, 120, 40)
			u.presses(test.keys...)
			if test.says != "" {
				u.wants(test.says)
				return
			}
			session := u.m.selectedSession()
			if session == nil || u.command == nil || session.ID() != test.of {
				t.Fatalf("no dialog about %v, but about %v", test.of, session)
			}
			d := &dialog{run: func(in io.Reader) error { return u.m.options.End(in, test.signal, session.ID()) }}
			u.send(endedMsg{d.Run()})
			if signal != test.signal || of != test.of || !u.m.taking {
				t.Errorf("%s of %v, and a snapshot is taken: %v", signal, of, u.m.taking)
			}
			u.wants("it failed")
		})
	}
}

func TestReadOnlyHasNoKeysThatEndSessions(t *testing.T) {
	u := open(t, Options{First: mixedSnapshot()}, 120, 60)
	for _, keys := range [][]string{{"t"}, {"c"}, {"enter", "t"}, {"esc", "1", "t"}} {
		u.presses(keys...)
		if u.command != nil {
			t.Errorf("%q does something", keys)
		}
	}
	u.presses("?")
	u.wantsNot("t        terminate", "c        cancel", "cancels")
}

func TestARecordingIsWoundBackAndForward(t *testing.T) {
	var by []time.Duration
	o := Options{First: mixedSnapshot(), Take: func(context.Context) (*monitor.Snapshot, error) { return deadlockSnapshot(), nil },
		Seek: func(d time.Duration) error { by = append(by, d); return nil }}
	u := open(t, o, 80, 24)
	for _, key := range []string{"[", "]", "{", "}"} {
		u.presses(key)
		for _, cmd := range u.command().(tea.BatchMsg)[1:] {
			u.send(cmd())
		}
	}
	u.wants("transfer 1")
	if fmt.Sprint(by) != "[-1m0s 1m0s -10m0s 10m0s]" {
		t.Errorf("moved by %v", by)
	}
}
