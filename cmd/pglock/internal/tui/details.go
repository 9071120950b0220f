package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// openDetails opens the details of the selected row, or unfolds it.
func (m Model) openDetails() (Model, tea.Cmd) {
	r, ok := m.selectedRow()
	switch {
	case !ok:
		return m, nil
	case r.fold != nil:
		return m.unfoldRow()
	}
	if r.session == nil {
		at := lockIDOf(r.lock)
		return m.open(pane{title: "key " + label(r.lock), session: onlyHolder(r.lock),
			write: func(m Model, width int) []string { return m.keyText(at, width) }})
	}
	id, kind := r.session.ID(), "session "
	if r.session.Lease != nil {
		kind = "process "
	}
	return m.open(pane{title: kind + sessionLabel(r.session.Session), session: &id,
		write: func(m Model, width int) []string { return m.sessionText(id, width) }})
}

// maxListed bounds the text of a pane, which is rewritten for each snapshot.
const maxListed = 200

// text collects lines.
type text struct {
	lines []string
	width int
}

// add adds a printable line, wrapped. The lines after the first are indented more.
func (t *text) add(indent int, format string, args ...any) {
	margin := strings.Repeat(" ", indent)
	for _, line := range view.Wrap(fmt.Sprintf(format, args...), max(t.width-indent, 20), "  ") {
		t.lines = append(t.lines, margin+line)
	}
}

func (t *text) blank() { t.lines = append(t.lines, "") }

// field adds a named value, unless it is empty.
func (t *text) field(indent int, name, value string) {
	if value == "" {
		return
	}
	const names = 13
	margin := strings.Repeat(" ", indent)
	for i, line := range view.Wrap(value, max(t.width-indent-names, 20), "") {
		if i > 0 {
			name = ""
		}
		t.lines = append(t.lines, margin+view.Fit(name, names, false)+line)
	}
}

func (m Model) keyText(at lockID, width int) []string {
	t, lock := &text{width: width}, findLock(m.snapshot, at)
	if lock == nil {
		t.add(1, "free: nothing holds it or waits for it")
		return t.lines
	}
	t.field(1, "key", view.Printable(lock.Key))
	for _, guess := range lock.Guesses {
		t.field(1, "guess", view.Printable("probably "+guess))
	}
	if lock.InRow {
		t.field(1, "in rows", fmt.Sprintf("number %d", lock.Number))
	} else {
		t.field(1, "in pg_locks", fmt.Sprintf("classid %d, objid %d, objsubid %d", uint32(lock.Class), uint32(lock.Object), lock.Objsubid))
	}
	t.field(1, "database", databaseName(lock))
	t.blank()
	t.add(1, "%s", plural(len(lock.Holders), "holder"))
	for i := range lock.Holders[:min(len(lock.Holders), maxListed)] {
		holder := &lock.Holders[i]
		m.describe(t, &holder.Session, holdPhrase(m.snapshot, holder))
		t.field(3, "code", view.Printable(holder.Code))
	}
	t.more(len(lock.Holders))
	t.blank()
	t.add(1, "%s", plural(len(lock.Waiters), "waiter"))
	tree := m.snapshot.Tree()
	for i := range lock.Waiters[:min(len(lock.Waiters), maxListed)] {
		waiter := &lock.Waiters[i]
		m.describe(t, &waiter.Session, m.waitPhrase(tree, waiter))
		t.field(3, "code", view.Printable(journal.TagsText(waiter.Query)))
	}
	t.more(len(lock.Waiters))
	return t.lines
}

func (t *text) more(all int) {
	if all > maxListed {
		t.add(3, "and %s more (pglock monitor --once -o json shows all)", number(all-maxListed))
	}
}

func (m Model) waitPhrase(tree *monitor.Tree, waiter *monitor.Waiter) string {
	phrase := fmt.Sprintf("wants it %s", view.Printable(waiter.Mode))
	switch {
	case waiter.WaitingSince == nil:
		phrase += ", waits for an unknown time"
	default:
		phrase += ", waits for " + view.Age(waited(m.snapshot, waiter))
	}
	if blockers := view.Blockers(tree, *waiter, m.snapshot.BlockersMissing != ""); len(blockers) > 0 {
		phrase += ", blocked by " + strings.Join(blockers, " ")
	}
	return phrase
}

// describe adds everything that is known about a session.
func (m Model) describe(t *text, session *monitor.Session, role string) {
	field := func(name, value string) string { return view.Field(*session, name, value) }
	t.add(1, "%s %s", view.Who(*session), role)
	if session.Lease != nil {
		t.field(3, "holder", view.Printable(session.Lease.Holder))
	}
	t.field(3, "user", field("user", session.User))
	t.field(3, "database", view.Printable(session.Database))
	if session.Prepared() {
		t.field(3, "prepared", m.since(session.PreparedAt))
		if sql := session.RollbackSQL(); sql != "" {
			t.field(3, "to end it", "COMMIT PREPARED or "+view.Printable(sql)+", in that database")
		}
		m.ages(t, session)
		return
	}
	t.field(3, "application", field("application", session.Application))
	if session.Process != "" {
		t.field(3, "process", view.Printable(session.Process)+", of pglock: its sessions carry the locks of many callers")
	}
	if session.Lease != nil {
		t.field(3, "host", field("client", session.Lease.Host))
		t.field(3, "process", either(field("session_since", ""), m.since(session.Since)))
		t.field(3, "lease", view.Lease(session.Lease, m.snapshot.TakenAt))
		return
	}
	t.field(3, "client", field("client", session.Client))
	t.field(3, "session", either(field("session_since", ""), m.since(session.Since)))
	t.field(3, "transaction", either(field("transaction_since", ""), m.since(session.TransactionSince)))
	t.field(3, "state", strings.TrimSpace(field("state", session.State)+" "+ageOf(m.snapshot, session.StateSince)))
	t.field(3, "wait event", strings.Trim(field("wait_event_type", session.WaitEventType)+" "+
		view.Printable(session.WaitEvent), " "))
	m.ages(t, session)
	t.query(field, view.Query(*session))
}

// query adds a query. It keeps its lines, since a line's end can end a comment.
func (t *text) query(field func(name, value string) string, query string) {
	name := "query"
	for line := range strings.Lines(strings.TrimSpace(query) + "\n") {
		line = field("query", strings.TrimRight(strings.ReplaceAll(line, "\t", " "), " \r\n"))
		t.field(3, name, line)
		name = ""
	}
}

// ages adds how far the session holds back vacuum.
func (m Model) ages(t *text, session *monitor.Session) {
	if session.XminAge != nil {
		t.field(3, "snapshot", number(*session.XminAge)+" transactions old (holds back vacuum)")
	}
	if session.XIDAge != nil {
		t.field(3, "own ID", number(*session.XIDAge)+" transactions old (holds back vacuum)")
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (m Model) since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("since %s (%s)", t.UTC().Format(time.DateTime+" MST"), ageOf(m.snapshot, t))
}

func (m Model) sessionText(id monitor.SessionID, width int) []string {
	t := &text{width: width}
	p := findSession(m.snapshot, id)
	if p == nil {
		t.add(1, "it holds no lock and waits for none, or has ended")
		return t.lines
	}
	role := "waits for no lock"
	if wait := p.wait(); wait != nil {
		role = "waits for " + waitLabel(*wait) + ": " + m.waitPhrase(m.snapshot.Tree(), wait.Waiter)
	}
	m.describe(t, p.Session, role)
	t.field(3, "code", view.Printable(journal.TagsText(p.Query)))
	t.blank()
	m.held(t, p)
	blocks := slices.Collect(waitsBehind(m.snapshot, id))
	if len(blocks) > 0 {
		t.blank()
		t.add(1, "blocks %s directly, %s in all", number(len(blocks)), number(p.node.Behind))
	}
	for _, wait := range blocks[:min(len(blocks), maxListed)] {
		t.add(3, "%s, waits for %s (%s) for %s", sessionLabel(&wait.Session), waitLabel(wait), view.Short(wait.Mode),
			view.Age(waited(m.snapshot, wait.Waiter)))
	}
	t.more(len(blocks))
	ref := p.SessionRef()
	if p.Lease != nil {
		ref = p.Lease.Holder
	}
	if ref != "" && len(blocks) > 0 && m.options.End != nil {
		t.command(view.EndSession("terminate", ref, m.options.Flags))
	}
	return t.lines
}

// held lists the locks of a session or process: its advisory locks or locks in rows, and those of other types that others wait
// for.
func (m Model) held(t *text, p *sessionInfo) {
	others := view.HeldOthers(m.snapshot, p.ID())
	if len(p.held) > 0 || len(others) == 0 {
		t.add(1, "holds %s", plural(len(p.held), "lock"))
	}
	for _, lock := range p.held[:min(len(p.held), maxListed)] {
		line := label(lock)
		if h := heldBy(lock, p.ID()); lock.InRow && h != nil {
			line += fmt.Sprintf(" %s for %s", view.Printable(h.Mode), rowHeld(m.snapshot, h))
		}
		if n := len(lock.Waiters); n > 0 {
			line += ", " + plural(n, "waiter")
		}
		t.add(3, "%s", line)
	}
	t.more(len(p.held))
	if len(others) > 0 {
		t.add(1, "holds, of locks of other types, what others wait for:")
	}
	for _, lock := range others[:min(len(others), maxListed)] {
		t.add(3, "%s", lock)
	}
	t.more(len(others))
}

// command adds the command that ends a session, unless it does not fit: cut, it would end something else.
func (t *text) command(end string) {
	lines := view.WrapCommand("   "+end, t.width)
	if slices.ContainsFunc(lines, func(line string) bool { return view.Columns(line) > t.width }) {
		return
	}
	t.blank()
	t.add(1, "to end it:")
	t.lines = append(t.lines, lines...)
}
