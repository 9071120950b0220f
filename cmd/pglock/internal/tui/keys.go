package tui

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// keyMap has the key bindings of the view. The footer and the help pane show their help texts.
type keyMap struct {
	up, down, pageUp, pageDown, top, bottom   key.Binding
	next, keys, tree, open, fold, info, help  key.Binding
	filter, back, pause, refresh              key.Binding
	back1, forward1, back10, forward10        key.Binding // in a recording
	cancel, terminate, suspend, quit, closing key.Binding
}

// newKeyMap disables the keys that signal sessions or move in a recording unless the options allow them.
func newKeyMap(o Options) keyMap {
	bind := func(enabled bool, shown, help string, keys ...string) key.Binding {
		b := key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
		b.SetEnabled(enabled)
		return b
	}
	ending, seeking := o.End != nil, o.Seek != nil
	return keyMap{
		up:        bind(true, "↑ k", "up", "up", "k"),
		down:      bind(true, "↓ j", "down", "down", "j"),
		pageUp:    bind(true, "PgUp ^b", "page up", "pgup", "ctrl+b", "ctrl+u"),
		pageDown:  bind(true, "PgDn ^f", "page down", "pgdown", "ctrl+f", "ctrl+d"),
		top:       bind(true, "Home g", "to the top", "home", "g"),
		bottom:    bind(true, "End G", "to the end", "end", "G"),
		next:      bind(true, "Tab", "page", "tab"),
		keys:      bind(true, "1", "keys", "1"),
		tree:      bind(true, "2", "blocking tree", "2"),
		open:      bind(true, "Enter", "details", "enter"),
		fold:      bind(true, "u", "unfold", "u", "space", "right", "left"),
		info:      bind(true, "i", "about the server", "i"),
		help:      bind(true, "?", "help", "?"),
		filter:    bind(true, "/", "filter", "/"),
		back:      bind(true, "Esc", "remove the filter", "esc"),
		pause:     bind(true, "p", "pause", "p"),
		refresh:   bind(true, "r", "refresh now", "r"),
		back1:     bind(seeking, "[", "a minute back", "["),
		forward1:  bind(seeking, "]", "a minute forward", "]"),
		back10:    bind(seeking, "{", "ten minutes back", "{"),
		forward10: bind(seeking, "}", "ten minutes forward", "}"),
		cancel:    bind(ending, "c", "cancel", "c"),
		terminate: bind(ending, "t", "terminate", "t"),
		suspend:   bind(true, "^z", "suspend", "ctrl+z"),
		quit:      bind(true, "q", "quit", "q", "ctrl+c"),
		closing:   bind(true, "Esc q", "close", "esc", "q", "enter", "backspace"),
	}
}

func (m Model) handleKey(press tea.KeyPressMsg) (Model, tea.Cmd) {
	m.status = ""
	switch by, moves := m.movement(press); {
	case m.typing:
		return m.typed(press), nil
	case moves && m.pane != nil:
		m.pane = m.pane.scrolled(by, m.paneHeight())
		return m, nil
	case moves:
		m.cursors[m.page] = m.cursors[m.page].move(by, m.rows)
		return m, nil
	case m.pane != nil && (key.Matches(press, m.keys.closing) || key.Matches(press, m.keys.help)):
		m.pane = nil
		return m, nil
	}
	return m.handleCommand(press)
}

// movement returns by how many lines a key moves.
func (m Model) movement(press tea.KeyPressMsg) (by int, moves bool) {
	const far = 1 << 30
	height := m.rowsHeight()
	if m.pane != nil {
		height = m.paneHeight()
	}
	for _, move := range []struct {
		binding key.Binding
		by      int
	}{
		{m.keys.up, -1}, {m.keys.down, 1}, {m.keys.pageUp, -height}, {m.keys.pageDown, height}, {m.keys.top, -far}, {m.keys.bottom, far},
	} {
		if key.Matches(press, move.binding) {
			return move.by, true
		}
	}
	return 0, false
}

// typed changes the filter, which is applied at once.
func (m Model) typed(press tea.KeyPressMsg) Model {
	switch press.String() {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, m.filter = false, ""
	case "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	default:
		m.filter += press.Text
	}
	return m.arranged()
}

func (m Model) handleCommand(press tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(press, k.quit):
		return m, tea.Quit
	case key.Matches(press, k.suspend):
		return m, tea.Suspend
	case key.Matches(press, k.help):
		m.pane = &pane{title: "help", write: Model.helpText}
	case key.Matches(press, k.info):
		m.pane = &pane{title: "about the server", write: Model.infoText}
	case key.Matches(press, k.open):
		m.pane = m.details()
	case key.Matches(press, k.pause):
		if m.paused = !m.paused; !m.paused {
			return m.takeSnapshots(false)
		}
	case key.Matches(press, k.refresh):
		return m.takeSnapshots(true)
	case key.Matches(press, k.cancel):
		return m.end("cancel")
	case key.Matches(press, k.terminate):
		return m.end("terminate")
	case key.Matches(press, k.back1):
		return m.seek(-time.Minute)
	case key.Matches(press, k.forward1):
		return m.seek(time.Minute)
	case key.Matches(press, k.back10):
		return m.seek(-10 * time.Minute)
	case key.Matches(press, k.forward10):
		return m.seek(10 * time.Minute)
	case m.pane == nil:
		return m.handleRowsKey(press), nil
	}
	return m, nil
}

// handleRowsKey handles the keys that change which rows are shown.
func (m Model) handleRowsKey(press tea.KeyPressMsg) Model {
	k := m.keys
	switch {
	case key.Matches(press, k.next):
		m.page = (m.page + 1) % pages
	case key.Matches(press, k.keys):
		m.page = pageKeys
	case key.Matches(press, k.tree):
		m.page = pageTree
	case key.Matches(press, k.fold):
		m.flat = !m.flat
	case key.Matches(press, k.filter):
		m.typing = true
	case key.Matches(press, k.back):
		m.filter = ""
	}
	return m.arranged()
}
