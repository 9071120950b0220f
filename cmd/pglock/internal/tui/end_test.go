package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// sendNothing replaces sending a signal. These tests do not run the command that calls it.
func sendNothing(context.Context, string, monitor.Target) (monitor.Outcome, error) {
	return monitor.Outcome{}, errors.New("a test has sent a signal")
}

func startWithSignals(t *testing.T, s *monitor.Snapshot) *user {
	return start(t, Options{First: s, End: sendNothing}, 80, 24)
}

// confirmationOpens makes the view ask for confirmation, as after the snapshot that it takes for that.
func (u *user) confirmationOpens(signal string, s *monitor.Snapshot, pid int32) {
	u.t.Helper()
	target, err := s.Target(monitor.SessionID{PID: pid})
	if err != nil {
		u.t.Fatal(err)
	}
	u.send(inspectionMsg{pendingSignal{signal, target}, s, nil})
}

func TestASignalIsShownAndConfirmed(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	u.presses("2", "t")
	if u.command == nil {
		t.Fatal("no snapshot is taken")
	}
	u.confirmationOpens("terminate", mixedSnapshot(), 4711)
	u.golden("terminate")
	for _, no := range []string{"", "y", "ye", "yess", "no", "YES"} {
		u.presses(no, "enter")
		if u.m.signalling {
			t.Fatalf("%q confirms", no)
		}
		u.wants("cancelled: no signal was sent to session 4711")
		u.confirmationOpens("terminate", mixedSnapshot(), 4711)
	}
	u.presses("yes", "esc")
	u.wants("cancelled: no signal was sent to session 4711")
	u.confirmationOpens("terminate", mixedSnapshot(), 4711)
	u.presses("yes", "enter")
	if !u.m.signalling || u.command == nil {
		t.Fatal("no signal is sent")
	}
	u.presses("c")
	u.wants("another signal is still under way")
	target, _ := mixedSnapshot().Target(monitor.SessionID{PID: 4711})
	s := pendingSignal{"terminate", target}
	u.send(signalMsg{s, monitor.Outcome{Signal: s.signal, Target: target, Sent: true, Ended: true,
		Locks: []monitor.LockOutcome{{Lock: target.Holds[0], Holders: []monitor.Holder{holds(session(4712, "worker-1"),
			"exclusive")}}}}, nil})
	if !u.m.taking {
		t.Error("no snapshot is taken")
	}
	u.wants("session 4711 has ended: 1 lock passed to the next waiter")
	u.presses("l")
	u.wants("terminate session 4711 …", "invoice:42 is now held by 4712")
}

func TestCancellingAnIdleSessionIsExplained(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	u.confirmationOpens("cancel", mixedSnapshot(), 4711)
	u.wants("idle in transaction: there is no statement to cancel", "Type yes to cancel session 4711")
}

func TestAFailedSignalIsReported(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	u.send(inspectionMsg{err: errors.New("the server\nis down")})
	u.wants("the server is down")
	target, _ := mixedSnapshot().Target(monitor.SessionID{PID: 4711})
	u.send(signalMsg{pendingSignal{"cancel", target}, monitor.Outcome{},
		fmt.Errorf("%s: %w", strings.Repeat("long ", 20), monitor.ErrNotPermitted)})
	u.wants("session 4711 was not signalled: not permitted (l: log)")
}

func TestNoConfirmationOpensDuringInput(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	u.presses("/y")
	u.confirmationOpens("terminate", mixedSnapshot(), 4711)
	u.presses("es", "enter")
	if u.m.signalling {
		t.Error("text of a filter has confirmed a signal")
	}
	u.wants("filter /yes/", "not asked about session 4711")
}

// What is typed before the question is asked neither answers it nor is taken for commands.
func TestKeysThatAreTypedTooEarlyDoNothing(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	before := u.m.query
	u.presses("t", "yes", "enter")
	if u.m.pane != nil || u.m.signalling || u.m.query.page != before.page {
		t.Errorf("the keys did something:\n%s", u.screen())
	}
	u.confirmationOpens("terminate", mixedSnapshot(), 4711)
	u.presses("enter")
	u.wants("cancelled: no signal was sent to session 4711")
	u.presses("2")
	if u.m.query.page == before.page {
		t.Error("the keys do nothing afterwards")
	}
}

// What the preview says about the consequences is on the screen of a small terminal, whatever waits.
func TestTheConsequencesOfASignalAreOnTheScreen(t *testing.T) {
	s := mixedSnapshot()
	for i := range s.Locks {
		for k := range s.Locks[i].Holders {
			if h := &s.Locks[i].Holders[k]; h.PID == 4711 {
				h.TransactionSince = ago(time.Minute)
				for n := range 12 {
					w := waits(session(int32(5000+n), "crowd"), "exclusive", time.Second)
					w.BlockedBy = []monitor.Blocker{{PID: 4711, Kind: "hard"}}
					s.Locks[i].Waiters = append(s.Locks[i].Waiters, w)
				}
			}
		}
	}
	u := startWithSignals(t, s)
	u.confirmationOpens("terminate", s, 4711)
	u.wants("Ending it frees 14.", "its transaction is rolled back", "Type yes to terminate")
}

// What has been said once does not stay for ever below the rows.
func TestAStatusIsShownForAWhile(t *testing.T) {
	u := startWithSignals(t, mixedSnapshot())
	u.presses("?", "t", "esc")
	u.wants("choose one session")
	later := mixedSnapshot()
	later.TakenAt = later.TakenAt.Add(topical + time.Second)
	u.snapshotArrives(later)
	u.wantsNot("choose one session")
	u.presses("l")
}

func TestWhichSessionIsSignalled(t *testing.T) {
	for _, test := range []struct {
		keys  []string
		looks string // the log entry: the target, or why there is none
	}{
		{[]string{"t"}, "looking at session 4711"},
		{[]string{"down", "t"}, "choose one session"},
		{[]string{"enter", "t"}, "looking at session 4711"},
		{[]string{"2", "down", "t"}, "looking at session 4712"},
		{[]string{"2", "down", "enter", "c"}, "looking at session 4712"},
		{[]string{"?", "t"}, "choose one session"},
		{[]string{"/nothing", "enter", "t"}, "there is no session here"},
		{[]string{"/order 7", "enter", "t"}, "ROLLBACK PREPARED 'order 7'"},
	} {
		t.Run(fmt.Sprint(test.keys), func(t *testing.T) {
			u := startWithSignals(t, mixedSnapshot())
			u.presses(test.keys...)
			u.wants(test.looks)
		})
	}
}

func TestReadOnlyHasNoKeysThatEndSessions(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 120, 60)
	for _, keys := range [][]string{{"t"}, {"c"}, {"enter", "t"}, {"c"}, {"esc", "2", "t"}} {
		u.presses(keys...)
		if u.command != nil {
			t.Errorf("%q does something", keys)
		}
	}
	u.wantsNot("terminate", "cancel")
	u.presses("?")
	u.wantsNot("t terminate", "c cancel")
}

func TestTheViewWaitsForASignalUnderWay(t *testing.T) {
	var g drainer
	running, release := make(chan struct{}), make(chan struct{})
	end := g.wrap(func(context.Context, string, monitor.Target) (monitor.Outcome, error) {
		close(running)
		<-release
		return monitor.Outcome{Sent: true}, nil
	})
	results := make(chan signalMsg, 1)
	go func() {
		outcome, err := end(t.Context(), "cancel", monitor.Target{})
		results <- signalMsg{outcome: outcome, err: err}
	}()
	<-running
	if g.mu.TryLock() {
		t.Fatal("the view can end before a signal that is under way")
	}
	close(release)
	g.close()
	if result := <-results; !result.outcome.Sent || result.err != nil {
		t.Errorf("the result is %v", result)
	}
	outcome, err := end(t.Context(), "cancel", monitor.Target{})
	if outcome.Sent || !errors.Is(err, errLeft) {
		t.Errorf("a signal was sent afterwards: %v", err)
	}
}

// The user is not asked about a signal that the role may not send.
func TestASignalThatWouldBeRefusedIsNotAskedAbout(t *testing.T) {
	signalledBy := "a superuser"
	u := start(t, Options{First: mixedSnapshot(), End: sendNothing,
		Take: func(context.Context, bool, monitor.SessionID) (*monitor.Snapshot, error) {
			s := mixedSnapshot()
			for i := range s.Locks {
				for j := range s.Locks[i].Holders {
					s.Locks[i].Holders[j].SignalledBy = signalledBy
				}
			}
			return s, nil
		}}, 80, 24)
	u.presses("2", "t")
	u.send(u.command())
	if u.m.prompt != nil || u.m.inspecting {
		t.Errorf("the user is asked:\n%s", u.screen())
	}
	u.wants("session 4711 was not signalled: not permitted (l: log)")
	u.presses("l")
	u.wants("it is a session of a superuser")
	signalledBy = ""
	u.presses("esc", "t")
	u.send(u.command())
	u.wants("Type yes to terminate session 4711")
}
