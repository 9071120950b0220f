package tui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// pendingSignal is a signal that has to be confirmed.
type pendingSignal struct {
	signal monitor.Signal
	target monitor.SignalTarget
}

func (s pendingSignal) String() string {
	return fmt.Sprintf("%s session %d%s", s.signal, s.target.PID, onServer(s.target.Server.Label))
}

// inspected is the result of inspect: all that is lost with a session, as a new snapshot shows it.
type inspected struct {
	pendingSignal
	snapshot *monitor.Snapshot
	err      error
}

// executed is the outcome of a signal.
type executed struct {
	pendingSignal
	outcome monitor.Outcome
	err     error
}

// executionTimeout bounds an execution, which continues after the view is left, so that its outcome is logged.
const executionTimeout = 20 * time.Second

// prepareSignal inspects the session of the open pane or of the selected row, in order to signal it.
func (m Model) prepareSignal(signal monitor.Signal) (Model, tea.Cmd) {
	m = m.focused()
	if m.pane != nil && m.pane.session != nil {
		m = m.on(m.pane.server)
	}
	session, why := m.sessionHere()
	switch {
	case m.executing:
		return m.say("another signal is still under way"), nil
	case session == nil:
		return m.say(why), nil
	case session.Prepared():
		return m.open(pane{title: "prepared transaction " + view.Who(*session), write: preparedText(*session)})
	}
	take, pid := m.take(true), session.PID
	return m.say(fmt.Sprintf("looking at session %d …", pid)), func() tea.Msg {
		fresh := take().(taken)
		if fresh.err != nil {
			return inspected{err: fresh.err}
		}
		target, err := monitor.Inspect(fresh.snapshot, pid)
		return inspected{pendingSignal{signal, target}, fresh.snapshot, err}
	}
}

// sessionHere is the session of the pane or the row, or the only holder of the row's key. If there is none it says
// why.
func (m Model) sessionHere() (session *monitor.Session, why string) {
	r, ok := m.here()
	switch {
	case m.pane != nil && m.pane.session != nil:
		if p := meetOne(m.snapshot, *m.pane.session); p != nil {
			return p.Session, ""
		}
		return nil, "the session has ended, or no longer has an advisory lock"
	case m.pane == nil && !ok:
		return nil, "there is no session here"
	case m.pane == nil && r.person != nil:
		return r.person.Session, ""
	case m.pane == nil && len(r.lock.Holders) == 1:
		return &r.lock.Holders[0].Session, ""
	case m.pane == nil && len(r.lock.Holders) == 0:
		return nil, "no session holds " + label(r.lock)
	}
	return nil, "choose one session, in the tree or among the sessions (2, 3)"
}

func preparedText(session monitor.Session) func(Model, int) []string {
	return func(_ Model, width int) []string {
		t := &text{width: width}
		t.add(1, "It has no process to signal. In database %s its owner %s or a superuser can end it with",
			view.Printable(session.Database), view.Field(session, "user", session.User))
		t.gap()
		t.add(3, "%s", view.Printable(session.RollbackSQL()))
		return t.lines
	}
}

// inspect shows all that is lost with a session, and asks.
func (m Model) inspect(i inspected) (Model, tea.Cmd) {
	switch {
	case i.err != nil:
		return m.say(oneLine(i.err.Error())), nil
	case m.typing != nil:
		return m.say("not asked about session " + i.target.Ref.String() + ": another input is open"), nil
	}
	server := m.serverOf(i.target).index
	m.typing = &prompt{input: newInput(fmt.Sprintf(" Type yes to %s: ", i.pendingSignal), ""), pendingSignal: &i.pendingSignal}
	return m.open(pane{title: i.pendingSignal.String() + "?", server: server, write: func(_ Model, width int) []string {
		return view.Preview(i.snapshot, i.target, i.signal, width)
	}})
}

// judge handles a key while the question is open.
func (m Model) judge(msg tea.Msg) (Model, tea.Cmd) {
	asked := *m.typing
	if press, ok := msg.(tea.KeyPressMsg); ok {
		by, moves := m.movement(press, m.paneHeight())
		switch {
		case key.Matches(press, m.keys.confirm) && asked.input.Value() == "yes":
			return m.sendSignal(*asked.pendingSignal)
		case key.Matches(press, m.keys.confirm, m.keys.leaveAlone):
			m.typing, m.pane = nil, nil
			return m.say(fmt.Sprintf("cancelled: no signal was sent to %d", asked.pendingSignal.target.PID)), nil
		case moves && press.Text == "":
			m.pane = m.pane.scrolled(by, m.paneHeight())
			return m, nil
		}
	}
	asked.input, _ = asked.input.Update(msg) // its command only makes the cursor blink
	m.typing = &asked
	return m, nil
}

func (m Model) sendSignal(s pendingSignal) (Model, tea.Cmd) {
	m.typing, m.pane, m.executing = nil, nil, true
	ctx, end := context.WithoutCancel(m.ctx), m.serverOf(s.target).End
	return m.say(s.String() + " …"), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, executionTimeout)
		defer cancel()
		outcome, err := end(ctx, s.signal, s.target)
		return executed{s, outcome, err}
	}
}

// executed logs the outcome of a signal, the summary last, and takes a snapshot.
func (m Model) executed(e executed) (Model, tea.Cmd) {
	m.executing = false
	if e.outcome.Sent {
		for _, line := range slices.Backward(atMost(view.Outcome(e.outcome, math.MaxInt32), mostListed)) {
			m = m.say(strings.TrimSpace(line))
		}
	}
	if e.err != nil {
		m = m.say(oneLine(e.err.Error()))
	}
	if e.err != nil && !e.outcome.Sent {
		m = m.say(fmt.Sprintf("session %d was not signalled%s (l: log)", e.pendingSignal.target.PID, shortly(e.err)))
	}
	return m.look(true)
}

// shortly is the reason in a word, since there is no room for a whole error below the list.
func shortly(err error) string {
	for _, reason := range []error{monitor.ErrNotPermitted, monitor.ErrNoSession} {
		if errors.Is(err, reason) {
			return ": " + reason.Error()
		}
	}
	return ""
}
