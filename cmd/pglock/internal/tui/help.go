package tui

import (
	"charm.land/bubbles/v2/key"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// helpText lists the keys, and what the columns and marks mean.
func helpText(m Model, width int) []string {
	t := &text{width: width}
	for _, group := range m.helpGroups() {
		if !group.keys[0].Enabled() {
			continue
		}
		t.gap()
		t.add(1, "%s", group.title)
		t.bindings(group.keys)
	}
	t.gap()
	for _, note := range helpNotes {
		t.add(1, "%s", note)
	}
	if m.keys.terminate.Enabled() {
		t.add(1, "%s", endingNote)
	}
	return t.lines[1:]
}

type helpGroup struct {
	title string
	keys  []key.Binding
}

func (m Model) helpGroups() []helpGroup {
	k := m.keys
	return []helpGroup{
		{"Pages", []key.Binding{k.keys, k.tree, k.sessions, k.next, k.previous, k.open, k.info, k.log, k.journal, k.help}},
		{"Rows", []key.Binding{k.up, k.down, k.pageUp, k.pageDown, k.top, k.bottom, k.order, k.reverse, k.filter, k.back,
			k.waiting, k.follow, k.copy}},
		{"Time", []key.Binding{k.pause, k.refresh, k.faster, k.slower}},
		{"Sessions", []key.Binding{k.cancel, k.terminate}},
		{"Leave", []key.Binding{k.suspend, k.quit}},
	}
}

// bindings writes keys in two columns where there is room.
func (t *text) bindings(keys []key.Binding) {
	const keyWidth, least = 8, 38
	columns := max(1, min(2, (t.width-3)/least))
	each := (t.width - 3) / columns
	rows := (len(keys) + columns - 1) / columns
	for i := range rows {
		line := "   "
		for j := i; j < len(keys); j += rows {
			help := keys[j].Help()
			line += view.Fit(view.Fit(help.Key, keyWidth, false)+" "+help.Desc, each, false)
		}
		t.lines = append(t.lines, line)
	}
}

var helpNotes = []string{
	"The filter is a regular expression. It is looked for in keys, guesses and databases, and in the process IDs, " +
		"users, applications, clients, states and queries of those who hold a key or wait for it. Small letters match " +
		"capitals, unless there is a capital in it.",
	"A row that was moved to stays selected wherever it goes. A key that is followed stays in the header, also when it " +
		"is free or left out by the filter, and the log tells who held it.",
	"HOLD and WAIT are how many hold the key and wait for it, LONGEST how long the first of them has waited. TREND is " +
		"how many waited, a bar for each snapshot, the lowest for nobody.",
	"In the tree everybody stands below whom it waits for; ~ marks those who are only behind others that wait too, and " +
		"! those in a deadlock. BEHIND is how many sessions cannot go on before this one does.",
}

const endingNote = "Cancelling ends the statement of a session, such as its wait; terminating ends the session and " +
	"all its locks. Both first show all that the session holds and who waits for it, and ask. What came of it is in " +
	"the log, and on the standard error when you leave."

// logText lists what happened.
func logText(m Model, width int) []string {
	t := &text{width: width}
	if len(m.log.entries) == 0 {
		t.add(1, "nothing happened yet")
	}
	for _, entry := range m.log.entries {
		t.add(1, "%s", entry)
	}
	return t.lines
}
