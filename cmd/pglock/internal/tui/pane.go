package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// pane is a text that covers the rows, and scrolls. It is immutable.
type pane struct {
	title string
	write func(Model) []string // returns printable lines
	text  []string
	first int // first line on the screen
}

// refreshed returns the pane with its current text, for the size of the screen.
func (p *pane) refreshed(m Model) *pane {
	if p == nil {
		return nil
	}
	next := *p
	next.text = p.write(m)
	return next.scrolled(0, m.paneHeight())
}

func (p pane) scrolled(by, height int) *pane {
	p.first = max(0, min(p.first+by, len(p.text)-height))
	return &p
}

// paneHeight is the height that remains below the header, without title, status and footer.
func (m Model) paneHeight() int {
	const others = 3
	return max(1, m.height-len(m.header())-others)
}

func (p pane) lines(m Model) []string {
	last, part := min(p.first+m.paneHeight(), len(p.text)), ""
	if last-p.first < len(p.text) {
		part = fmt.Sprintf(" lines %s-%s of %s ", number(p.first+1), number(last), number(len(p.text)))
	}
	title := view.Cut("── "+p.title+" ", max(0, m.width-view.Columns(part)))
	rule := strings.Repeat("─", max(0, m.width-view.Columns(title)-view.Columns(part)))
	lines := []string{m.styles.key.Render(view.Cut(title+rule+part, m.width))}
	for _, line := range p.text[p.first:last] {
		lines = append(lines, view.Cut(" "+line, m.width))
	}
	return lines
}

// details is about the selected row, or nil if that is none or several sessions.
func (m Model) details() *pane {
	r, ok := m.selectedRow()
	switch {
	case !ok || r.lock == nil && r.branch.Folded():
		return nil
	case r.lock != nil:
		id := r.id()
		return &pane{title: "key", write: func(m Model) []string {
			i := slices.IndexFunc(m.snapshot.Locks, func(lock monitor.Lock) bool { return (row{lock: &lock}).id() == id })
			if i < 0 {
				return []string{"free: nothing holds it or waits for it"}
			}
			return m.text.KeyDetails(&m.snapshot.Locks[i], m.width-2)
		}}
	}
	session := *r.branch.First().Session
	return &pane{title: "session", write: func(m Model) []string { return view.Details(m.snapshot, session, m.width-2) }}
}

func (m Model) infoText() []string {
	lines := view.Wrap(fmt.Sprintf("role %s, database %s", view.Printable(m.snapshot.Role), view.Printable(m.snapshot.Database)), m.width-2, "")
	return slices.Concat(lines, m.text.DeadlockLines(m.width-2), m.text.Notes(m.width-2))
}

// helpText lists the keys, and what the columns and marks mean.
func (m Model) helpText() (lines []string) {
	const keyWidth, least = 8, 30
	k := m.keys
	keys := slices.DeleteFunc([]key.Binding{k.keys, k.tree, k.next, k.open, k.info, k.help, k.up, k.down, k.pageUp, k.pageDown, k.top, k.bottom,
		k.filter, k.back, k.fold, k.pause, k.refresh, k.back1, k.forward1, k.back10, k.forward10, k.cancel, k.terminate, k.suspend, k.quit},
		func(b key.Binding) bool { return !b.Enabled() })
	columns := max(1, min(2, m.width/least))
	rows := (len(keys) + columns - 1) / columns
	for i := range rows {
		line := ""
		for j := i; j < len(keys); j += rows {
			line += view.Fit(view.Fit(keys[j].Help().Key, keyWidth, false)+" "+keys[j].Help().Desc, (m.width-2)/columns, false)
		}
		lines = append(lines, line)
	}
	notes := helpNotes
	if k.terminate.Enabled() {
		notes = append(slices.Clone(notes), signalNote)
	}
	for _, note := range notes {
		lines = append(append(lines, ""), view.Wrap(note, m.width-2, "")...)
	}
	return lines
}

var helpNotes = []string{
	"In the tree each session stands below the one that it waits for. ~ marks those that only wait behind other waiters, ! those in a " +
		"deadlock, and +n says that n more sessions hold what it waits for. A session at a root waits for none. BEHIND is how many " +
		"sessions are blocked by this one, directly or through others. More than five waiters for the same lock in the same mode are one row: u shows each.",
	"Locks in rows (package rowlock) have (row) behind their keys. A process holds them, named by its process ID and host.",
	"The filter is a text that the rows contain. In the tree it shows the whole trees of such rows.",
}

const signalNote = "c cancels the statement of a session, such as its wait, and t ends the session with all its locks. Both first show " +
	"what ends, and ask."
