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

// pendingSignal is a signal that the user has not yet confirmed.
type pendingSignal struct {
	signal string
	target monitor.Target
}

func (s pendingSignal) String() string {
	return fmt.Sprintf("%s %s", s.signal, targetText(s.target))
}

// inspectionMsg describes the session to signal, from a new snapshot.
type inspectionMsg struct {
	pendingSignal
	snapshot *monitor.Snapshot
	err      error
}

// signalMsg is the outcome of a signal.
type signalMsg struct {
	pendingSignal
	outcome monitor.Outcome
	err     error
}

// signalTimeout bounds sending a signal. Sending continues after the user leaves the view, so that its outcome is logged.
const signalTimeout = 20 * time.Second

// prepareSignal takes a snapshot to inspect the session of the open pane or the selected row.
func (m Model) prepareSignal(signal string) (Model, tea.Cmd) {
	session, why := m.selectedSession()
	switch {
	case m.signalling:
		return m.addLog("another signal is still under way"), nil
	case session == nil:
		return m.addLog(why), nil
	case session.Lease != nil && signal == "cancel":
		return m.addLog("a process with locks in rows runs no statement to cancel (t ends it)"), nil
	case session.Prepared():
		return m.open(pane{title: "prepared transaction " + view.Who(*session.Session), write: preparedText(*session.Session)})
	}
	take, id := m.takeOne(true, session.ID()), session.ID()
	m.inspecting = true
	return m.addLog("looking at " + targetText(monitor.Target{Session: *session.Session}) + " …"), func() tea.Msg {
		fresh := take().(snapshotMsg)
		if fresh.err != nil {
			return inspectionMsg{err: fresh.err}
		}
		target, err := fresh.snapshot.Target(id)
		if err == nil {
			err = target.Permitted()
		}
		return inspectionMsg{pendingSignal{signal, target}, fresh.snapshot, err}
	}
}

// selectedSession returns the session or process of the pane or the row, or the only holder of the row's key; or else the
// reason why there is none.
func (m Model) selectedSession() (session *sessionInfo, why string) {
	r, ok := m.selectedRow()
	switch {
	case m.pane != nil && m.pane.session != nil:
		if p := findSession(m.snapshot, *m.pane.session); p != nil {
			return p, ""
		}
		return nil, "the session has ended, or no longer has a lock"
	case m.pane == nil && !ok:
		return nil, "there is no session here"
	case m.pane == nil && r.fold != nil:
		return nil, "choose one session (Right shows them)"
	case m.pane == nil && r.session != nil:
		return r.session, ""
	case m.pane == nil && len(r.lock.Holders) == 1:
		return &sessionInfo{Session: &r.lock.Holders[0].Session}, ""
	case m.pane == nil && len(r.lock.Holders) == 0:
		return nil, "nothing holds " + label(r.lock)
	}
	return nil, "choose one session, in the tree (2)"
}

func preparedText(session monitor.Session) func(Model, int) []string {
	return func(_ Model, width int) []string {
		t := &text{width: width}
		t.add(1, "It has no process to signal. In database %s its owner %s or a superuser can end it with",
			view.Printable(session.Database), view.Field(session, "user", session.User))
		t.blank()
		t.add(3, "%s", view.Printable(session.RollbackSQL()))
		return t.lines
	}
}

// handleInspection shows everything that ends with a session, and asks for confirmation.
func (m Model) handleInspection(i inspectionMsg) (Model, tea.Cmd) {
	m.inspecting = false
	switch {
	case errors.Is(i.err, monitor.ErrNotPermitted):
		return m.addLog(oneLine(i.err.Error())).addLog(notSignalled(i.target, i.err)), nil
	case i.err != nil:
		return m.addLog(oneLine(i.err.Error())), nil
	case m.prompt != nil:
		return m.addLog("not asked about " + targetText(i.target) + ": another input is open"), nil
	}
	return m.ask(question{i.pendingSignal.String(), "no signal was sent to " + targetText(i.target),
		func(m Model) (Model, tea.Cmd) { return m.sendSignal(i.pendingSignal) }},
		func(width int) []string { return view.Preview(i.snapshot, i.target, i.signal, width) })
}

// question is what the user has to confirm.
type question struct {
	what    string // "terminate session 42"
	nothing string // what is logged if it is not confirmed
	do      func(Model) (Model, tea.Cmd)
}

// ask shows what would end, and asks for confirmation.
func (m Model) ask(q question, preview func(width int) []string) (Model, tea.Cmd) {
	m.prompt = &prompt{input: newInput(fmt.Sprintf(" Type yes to %s: ", q.what), ""), question: &q}
	return m.open(pane{title: q.what + "?", write: func(_ Model, width int) []string { return preview(width) }})
}

// handleConfirmation handles a message while a question waits for its answer.
func (m Model) handleConfirmation(msg tea.Msg) (Model, tea.Cmd) {
	open := *m.prompt
	if press, ok := msg.(tea.KeyPressMsg); ok {
		by, moves := m.movement(press, m.paneHeight())
		switch {
		case key.Matches(press, m.keys.confirm) && open.input.Value() == "yes":
			m.prompt, m.pane = nil, nil
			return open.question.do(m)
		case key.Matches(press, m.keys.confirm, m.keys.goBack):
			m.prompt, m.pane = nil, nil
			return m.addLog("cancelled: " + open.question.nothing), nil
		case moves && press.Text == "":
			m.pane = m.pane.scrolled(by, m.paneHeight())
			return m, nil
		}
	}
	open.input, _ = open.input.Update(msg) // the command only makes the cursor blink
	m.prompt = &open
	return m, nil
}

func (m Model) sendSignal(s pendingSignal) (Model, tea.Cmd) {
	m.signalling = true
	ctx, end := context.WithoutCancel(m.ctx), m.options.End
	return m.addLog(s.String() + " …"), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, signalTimeout)
		defer cancel()
		outcome, err := end(ctx, s.signal, s.target)
		return signalMsg{s, outcome, err}
	}
}

// handleSignal logs the outcome of a signal, with the summary last, and takes a snapshot.
func (m Model) handleSignal(e signalMsg) (Model, tea.Cmd) {
	m.signalling = false
	if e.outcome.Sent {
		for _, line := range slices.Backward(atMost(view.Outcome(e.outcome, math.MaxInt32), maxListed)) {
			m = m.addLog(strings.TrimSpace(line))
		}
	}
	if e.err != nil {
		m = m.addLog(oneLine(e.err.Error()))
	}
	if e.err != nil && !e.outcome.Sent {
		m = m.addLog(notSignalled(e.pendingSignal.target, e.err))
	}
	return m.takeSnapshots(true)
}

func notSignalled(target monitor.Target, why error) string {
	return fmt.Sprintf("%s was not signalled%s (l: log)", targetText(target), shortReason(why))
}

// targetText names a session or process in a few words.
func targetText(t monitor.Target) string {
	if t.Lease != nil {
		return "process " + sessionLabel(&t.Session)
	}
	return fmt.Sprintf("session %d", t.PID)
}

// shortReason returns the reason in a few words, since there is no room for a whole error below the rows.
func shortReason(err error) string {
	for _, reason := range []error{monitor.ErrNotPermitted, monitor.ErrNoSession} {
		if errors.Is(err, reason) {
			return ": " + reason.Error()
		}
	}
	return ""
}
