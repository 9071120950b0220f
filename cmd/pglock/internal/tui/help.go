package tui

import (
	"charm.land/bubbles/v2/key"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const helpTitle = "help"

// helpText lists the keys, and what the columns and marks mean.
func helpText(m Model, width int) []string {
	t := &text{width: width}
	for _, group := range m.helpGroups() {
		if !group.keys[0].Enabled() {
			continue
		}
		t.blank()
		t.add(1, "%s", group.title)
		t.bindings(group.keys)
	}
	t.blank()
	for _, note := range helpNotes {
		t.add(1, "%s", note)
	}
	if m.keys.terminate.Enabled() {
		t.add(1, "%s", signalNote)
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
		{"Pages", []key.Binding{k.keys, k.tree, k.next, k.open, k.info, k.log, k.journal, k.help}},
		{"Rows", []key.Binding{k.up, k.down, k.pageUp, k.pageDown, k.top, k.bottom, k.filter, k.back, k.allWaits, k.unfoldRow, k.foldRow, k.toggleRow, k.fold}},
		{"Time", []key.Binding{k.pause, k.refresh}},
		{"Recording", []key.Binding{k.back1, k.forward1, k.back10, k.forward10}},
		{"Sessions", []key.Binding{k.cancel, k.terminate}},
		{"Terminal", []key.Binding{k.suspend, k.quit}},
	}
}

// bindings writes keys in two columns if there is room.
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
	"The filter is a regular expression. It is matched against keys, guesses and databases, and the process IDs, users, " +
		"applications, clients, states and queries of holders and waiters. Case-insensitive unless the pattern contains " +
		"a capital.",
	"A selected row stays selected when it moves.",
	"A row with ▸ stands for others. Waiters that wait for the same lock in the same way are one such row if they are more than " +
		"five: STATE says how long they have waited, and which is the first and which the last. Right, Space or Enter shows them, " +
		"Left or Space folds them again, or what is below a session.",
	"Locks in rows (package rowlock) have (row) behind their keys. A process holds them, named by its process ID and host; STATE " +
		"says how long it has had the lock, and its lease.",
	"Without a (all waits), waits that have nothing to do with an advisory lock are only counted.",
	"HOLD and WAIT are the numbers of holders and waiters, LONGEST is the longest wait.",
	"In the tree each session stands below the one that it waits for. ~ marks those that only wait behind other " +
		"waiters, ! those in a deadlock. A session at a root waits for none. BEHIND is how many sessions are blocked by this one, directly or through others.",
}

const signalNote = "Cancelling ends the statement of a session, such as its wait; terminating ends the session and " +
	"all its locks. Both first show what the session holds and who waits for it, and ask. Terminating a " +
	"process with locks in rows frees these; the process goes on. The outcome is in the log, " +
	"and on standard error when you leave."

// logText lists the log.
func logText(m Model, width int) []string {
	t := &text{width: width}
	if len(m.log.entries) == 0 {
		t.add(1, "nothing has happened yet")
	}
	for _, entry := range m.log.entries {
		t.add(1, "%s", entry)
	}
	return t.lines
}
