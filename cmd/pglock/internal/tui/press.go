package tui

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func (m Model) pressed(press tea.KeyPressMsg) (Model, tea.Cmd) {
	switch {
	case m.typing != nil:
		return m.typed(press)
	case m.pane != nil:
		return m.inPane(press)
	}
	return m.inRows(press)
}

// movement returns by how many lines a key moves; height is the height of a page.
func (m Model) movement(press tea.KeyPressMsg, height int) (by int, moves bool) {
	const far = 1 << 30
	for _, move := range []struct {
		binding key.Binding
		by      int
	}{
		{m.keys.up, -1}, {m.keys.down, 1}, {m.keys.pageUp, -height}, {m.keys.pageDown, height},
		{m.keys.top, -far}, {m.keys.bottom, far},
	} {
		if key.Matches(press, move.binding) {
			return move.by, true
		}
	}
	return 0, false
}

// inRows handles a key while the rows are shown.
func (m Model) inRows(press tea.KeyPressMsg) (Model, tea.Cmd) {
	page := m.board.question.page
	if by, moves := m.movement(press, m.rowsHeight()); moves {
		m.cursors[page] = m.cursors[page].move(by, m.board.rows)
		if key.Matches(press, m.keys.top) {
			m.cursors[page] = cursor{}
		}
		return m, nil
	}
	k := m.keys
	switch {
	case key.Matches(press, k.next):
		return m.turn((m.question.page + 1) % pages)
	case key.Matches(press, k.previous):
		return m.turn((m.question.page + pages - 1) % pages)
	case key.Matches(press, k.keys):
		return m.turn(pageKeys)
	case key.Matches(press, k.tree):
		return m.turn(pageTree)
	case key.Matches(press, k.sessions):
		return m.turn(pageSessions)
	case key.Matches(press, k.waiting):
		m.question.waiting = !m.question.waiting
		return m.ask()
	case key.Matches(press, k.order):
		m.question.order[page] = (m.question.order[page] + 1) % len(m.question.orders())
		return m.ask()
	case key.Matches(press, k.reverse):
		m.question.reversed[page] = !m.question.reversed[page]
		return m.ask()
	case key.Matches(press, k.filter):
		m.typing = newPrompt(m.filter)
		return m, nil
	case key.Matches(press, k.back):
		m.filter = filter{}
		return m.narrow()
	case key.Matches(press, k.fold):
		m.question = m.question.refold()
		return m.ask()
	case key.Matches(press, k.open):
		return m.openDetails()
	case key.Matches(press, k.follow):
		return m.toggleFollow()
	}
	return m.anywhere(press)
}

// anywhere handles the keys with the same meaning in the rows and in a pane.
func (m Model) anywhere(press tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(press, k.quit):
		return m, tea.Quit
	case key.Matches(press, k.mouse):
		return m.toggleMouse(), nil
	case key.Matches(press, k.redraw):
		return m, tea.ClearScreen
	case key.Matches(press, k.suspend):
		return m, tea.Suspend
	case key.Matches(press, k.help):
		return m.open(pane{title: helpTitle, write: helpText})
	case key.Matches(press, k.info):
		return m.open(pane{title: "about the server", write: infoText})
	case key.Matches(press, k.log):
		return m.open(pane{title: "log", write: logText, tail: true})
	case key.Matches(press, k.journal):
		return m.open(pane{title: "journal of contended keys", write: journalText, tail: true})
	case key.Matches(press, k.pause):
		m.paused = !m.paused
		if m.paused {
			return m, nil
		}
		return m.look(false)
	case key.Matches(press, k.refresh):
		return m.look(true)
	case key.Matches(press, k.back1):
		return m.seek(-time.Minute)
	case key.Matches(press, k.on1):
		return m.seek(time.Minute)
	case key.Matches(press, k.back10):
		return m.seek(-10 * time.Minute)
	case key.Matches(press, k.on10):
		return m.seek(10 * time.Minute)
	case key.Matches(press, k.slower):
		return m.setInterval(slowerThan(m.interval))
	case key.Matches(press, k.faster):
		return m.setInterval(fasterThan(m.interval))
	case key.Matches(press, k.copy):
		return m.copy()
	case key.Matches(press, k.cancel):
		return m.prepareSignal(monitor.SignalCancel)
	case key.Matches(press, k.terminate):
		return m.prepareSignal(monitor.SignalTerminate)
	}
	return m, nil
}

func (m Model) turn(to page) (Model, tea.Cmd) {
	m.question.page = to
	return m.ask()
}

// paces are the intervals that the keys choose from.
var paces = []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}

func slowerThan(interval time.Duration) time.Duration {
	i := slices.IndexFunc(paces, func(pace time.Duration) bool { return pace > interval })
	if i < 0 {
		return interval
	}
	return paces[i]
}

func fasterThan(interval time.Duration) time.Duration {
	for _, pace := range slices.Backward(paces) {
		if pace < interval {
			return pace
		}
	}
	return interval
}

func (m Model) setInterval(interval time.Duration) (Model, tea.Cmd) {
	m.interval = interval
	m.pace++
	return m, m.wait()
}

// here returns the selected row; false if there is none.
func (m Model) here() (row, bool) {
	at := m.cursors[m.board.question.page].at
	if at >= len(m.board.rows) {
		return row{}, false
	}
	return m.board.rows[at], true
}

func (m Model) toggleFollow() (Model, tea.Cmd) {
	r, ok := m.here()
	switch {
	case ok && r.group != nil:
		return m.say("a group cannot be followed (Enter shows its keys)"), nil
	case m.followed != nil && (!ok || r.lock == nil || r.id.server == m.followed.server && placeOf(r.lock) == m.followed.place):
		m.followed = nil
	case !ok || r.lock == nil:
		return m.say("there is no key to follow: this session waits for no key"), nil
	default:
		m.followed = follow(m.on(r.id.server).board.snapshot, r.lock)
		m.followed.server, m.followed.where = r.id.server, onServer(m.servers[r.id.server].Label)
		if m.question.page == pageKeys {
			id := r.id
			m.cursors[pageKeys].chosen = &id
		}
	}
	return m, nil
}

// say adds an entry to the log, whose last entry is on the screen.
func (m Model) say(text string) Model {
	m.log = m.log.add(m.now(), text)
	return m
}

// copy asks the terminal to put the selected key, the process ID or the text of the pane on the clipboard (OSC
// 52).
func (m Model) copy() (Model, tea.Cmd) {
	what, text := m.toCopy()
	if text == "" {
		return m.say("there is nothing to copy"), nil
	}
	return m.say("copied " + what + ", if the terminal lets programs copy (OSC 52)"), tea.SetClipboard(text)
}

func (m Model) toCopy() (what, text string) {
	if m.pane != nil {
		return "the text of this pane", strings.Join(m.pane.text, "\n")
	}
	r, ok := m.here()
	switch {
	case !ok:
		return "", ""
	case r.group != nil:
		text = view.Printable(r.group.name())
	case r.person != nil:
		text = view.Who(*r.person.Session)
	default:
		text = copyable(r.lock)
	}
	return text, text
}

// copyable is a key in a form that pglock reads and that can be pasted anywhere: its number if it has several names, or
// a name with characters that a shell or an editor would not take for text.
func copyable(lock *monitor.Lock) string {
	if len(lock.Names) <= 1 && view.Printable(lock.Key) == lock.Key {
		return lock.Key
	}
	return pglock.Int64Key(lock.Number).String() // only bigints have names
}
