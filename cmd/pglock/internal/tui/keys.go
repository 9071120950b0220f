package tui

import "charm.land/bubbles/v2/key"

// keyMap has the key bindings of the view. The footer and the help pane show their help texts.
type keyMap struct {
	up, down, pageUp, pageDown, top, bottom key.Binding
	next, keys, tree                        key.Binding
	open, info, log, journal, help          key.Binding
	filter, back                            key.Binding
	pause, refresh                          key.Binding
	cancel, terminate                       key.Binding
	back1, forward1, back10, forward10      key.Binding // in a recording
	foldRow, unfoldRow, toggleRow, fold     key.Binding
	allWaits, suspend, quit                 key.Binding

	closePane       key.Binding // while a pane is open
	accept, restore key.Binding // while a filter is typed
	confirm, goBack key.Binding // while a signal waits for confirmation
}

// newKeyMap disables the keys that signal sessions or move in a recording unless the options allow them.
func newKeyMap(ending, seeking bool) keyMap {
	bind := func(shown, help string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
	}
	keys := keyMap{
		up:        bind("↑ k", "up", "up", "k"),
		down:      bind("↓ j", "down", "down", "j"),
		pageUp:    bind("PgUp ^b", "page up", "pgup", "ctrl+b", "ctrl+u"),
		pageDown:  bind("PgDn ^f", "page down", "pgdown", "ctrl+f", "ctrl+d"),
		top:       bind("Home g", "to the top", "home", "g"),
		bottom:    bind("End G", "to the end", "end", "G"),
		next:      bind("Tab", "page", "tab"),
		keys:      bind("1", "keys", "1"),
		tree:      bind("2", "blocking tree", "2"),
		unfoldRow: bind("→", "unfold", "right"),
		foldRow:   bind("←", "fold", "left"),
		toggleRow: bind("Space", "fold or unfold", "space"),
		fold:      bind("u", "fold or unfold all", "u"),
		allWaits:  bind("a", "all waits", "a"),
		open:      bind("Enter", "details", "enter"),
		back:      bind("Esc", "remove the filter", "esc"),
		filter:    bind("/", "filter", "/"),
		pause:     bind("p", "pause", "p"),
		refresh:   bind("r", "refresh now", "r"),
		back1:     bind("[", "a minute back", "["),
		forward1:  bind("]", "a minute forward", "]"),
		back10:    bind("{", "ten minutes back", "{"),
		forward10: bind("}", "ten minutes forward", "}"),
		info:      bind("i", "about the server", "i"),
		log:       bind("l", "log", "l"),
		journal:   bind("J", "journal", "J"),
		help:      bind("?", "help", "?"),
		cancel:    bind("c", "cancel", "c"),
		terminate: bind("t", "terminate", "t"),
		accept:    bind("Enter", "keep", "enter"),
		restore:   bind("Esc", "as before", "esc", "ctrl+c"),
		confirm:   bind("yes Enter", "do it", "enter"),
		goBack:    bind("Esc", "go back", "esc", "ctrl+c"),
		closePane: bind("Esc q", "close", "esc", "q", "enter", "backspace"),
		suspend:   bind("^z", "suspend", "ctrl+z"),
		quit:      bind("q", "quit", "q", "ctrl+c"),
	}
	keys.cancel.SetEnabled(ending)
	keys.terminate.SetEnabled(ending)
	for _, binding := range []*key.Binding{&keys.back1, &keys.forward1, &keys.back10, &keys.forward10} {
		binding.SetEnabled(seeking)
	}
	keys.allWaits.SetEnabled(!seeking) // a recording has what was recorded
	return keys
}
