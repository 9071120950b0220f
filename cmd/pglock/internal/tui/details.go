package tui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
)

// openDetails opens the details of the selected row.
func (m Model) openDetails() (Model, tea.Cmd) {
	r, ok := m.here()
	switch {
	case !ok:
		return m, nil
	case r.group != nil:
		m.question = m.question.unfold(*r.group)
		return m.ask()
	case r.person != nil:
		id := r.person.Session.ID()
		return m.open(pane{title: "session " + named(r.person.Session) + onServer(m.servers[r.id.server].Label), session: &id, server: r.id.server,
			write: func(m Model, width int) []string { return m.sessionText(id, width) }})
	}
	at := placeOf(r.lock)
	return m.open(pane{title: "key " + label(r.lock) + onServer(m.servers[r.id.server].Label), session: onlyHolder(r.lock), server: r.id.server,
		write: func(m Model, width int) []string { return m.keyText(at, width) }})
}

func onlyHolder(lock *monitor.Lock) *monitor.SessionID {
	if len(lock.Holders) != 1 {
		return nil
	}
	id := lock.Holders[0].Session.ID()
	return &id
}

// mostListed bounds the text of a pane, which is written anew for each snapshot.
const mostListed = 200

// text collects lines.
type text struct {
	lines []string
	width int
}

// add wraps a printable line. Further lines are indented a little more than the first.
func (t *text) add(indent int, format string, args ...any) {
	margin := strings.Repeat(" ", indent)
	for _, line := range view.Wrap(fmt.Sprintf(format, args...), max(t.width-indent, 20), "  ") {
		t.lines = append(t.lines, margin+line)
	}
}

func (t *text) gap() { t.lines = append(t.lines, "") }

// fact adds a named value, unless it is empty.
func (t *text) fact(indent int, name, value string) {
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

func (m Model) keyText(at place, width int) []string {
	t := &text{width: width}
	lock := find(m.snapshot, at)
	if lock == nil {
		t.add(1, "free: no session holds it or waits for it")
		return t.lines
	}
	t.fact(1, "key", view.Printable(lock.Key))
	for _, guess := range lock.Guesses {
		t.fact(1, "guess", view.Printable(guess.String()))
	}
	t.fact(1, "in pg_locks", fmt.Sprintf("classid %d, objid %d, objsubid %d", uint32(lock.Class), uint32(lock.Object),
		lock.Objsubid))
	t.fact(1, "database", database(lock))
	if trend := m.trends.of(at); !trend.quiet() {
		t.fact(1, "waiters", strings.TrimLeft(trend.sparkline(clampTo(width-15, trendWidth, remembered)), " "))
	}
	t.gap()
	t.add(1, "%s", plural(len(lock.Holders), "holder"))
	for i := range lock.Holders[:min(len(lock.Holders), mostListed)] {
		holder := &lock.Holders[i]
		m.describe(t, &holder.Session, holdPhrase(m.snapshot, holder))
		t.fact(3, "code", view.Printable(journal.CodeText(holder.Code)))
	}
	t.rest(len(lock.Holders))
	t.gap()
	t.add(1, "%s", plural(len(lock.Waiters), "waiter"))
	for i := range lock.Waiters[:min(len(lock.Waiters), mostListed)] {
		waiter := &lock.Waiters[i]
		m.describe(t, &waiter.Session, m.waitPhrase(waiter))
		t.code(&waiter.Session)
	}
	t.rest(len(lock.Waiters))
	return t.lines
}

func (t *text) rest(all int) {
	if all > mostListed {
		t.add(3, "and %s more (pglock monitor --once -o json shows all)", number(all-mostListed))
	}
}

func (m Model) waitPhrase(waiter *monitor.Waiter) string {
	phrase := fmt.Sprintf("wants it %s", view.Printable(string(waiter.Mode)))
	switch {
	case waiter.WaitingSince == nil:
		phrase += ", waits for an unknown time"
	case waiter.WaitingEstimated:
		phrase += ", waits for at most " + view.Age(waited(m.snapshot, waiter)) + " (PostgreSQL 13 does not report it)"
	default:
		phrase += ", waits for " + view.Age(waited(m.snapshot, waiter))
	}
	if blockers := view.Blockers(*waiter, m.snapshot.BlockersMissing != ""); len(blockers) > 0 {
		phrase += ", blocked by " + strings.Join(blockers, " ")
	}
	return phrase
}

// describe writes all that is known about a session.
func (m Model) describe(t *text, session *monitor.Session, role string) {
	field := func(name, value string) string { return view.Field(*session, name, value) }
	t.add(1, "%s %s", view.Who(*session), role)
	t.fact(3, "user", field("user", session.User))
	t.fact(3, "database", view.Printable(session.Database))
	if session.Prepared() {
		t.fact(3, "prepared", m.since(session.PreparedAt))
		if sql := session.RollbackSQL(); sql != "" {
			t.fact(3, "to end it", "COMMIT PREPARED or "+view.Printable(sql)+", in that database")
		}
		m.ages(t, session)
		return
	}
	t.fact(3, "application", field("application", session.Application))
	if session.Process != "" {
		t.fact(3, "process", view.Printable(session.Process)+", of pglock: its sessions carry the locks of many callers")
	}
	t.fact(3, "client", field("client", session.Client))
	t.fact(3, "session", either(field("session_since", ""), m.since(session.Since)))
	t.fact(3, "transaction", either(field("transaction_since", ""), m.since(session.TransactionSince)))
	t.fact(3, "state", strings.TrimSpace(field("state", session.State)+" "+ageOf(m.snapshot, session.StateSince)))
	t.fact(3, "wait event", strings.Trim(field("wait_event_type", session.WaitEventType)+" "+
		view.Printable(session.WaitEvent), " "))
	m.ages(t, session)
	t.query(field, session.Query)
}

// code returns the code that the tags of a session's statement name.
func (t *text) code(session *monitor.Session) {
	if tags := monitor.QueryTags(session.Query); len(tags) > 0 {
		t.fact(3, "code", view.Printable(journal.CodeText(&monitor.Code{Tags: tags})))
	}
}

// query keeps the lines of a query: where a comment ends matters.
func (t *text) query(field func(name, value string) string, query string) {
	name := "query"
	for line := range strings.Lines(strings.TrimSpace(query) + "\n") {
		line = field("query", strings.TrimRight(strings.ReplaceAll(line, "\t", " "), " \r\n"))
		t.fact(3, name, line)
		name = ""
	}
}

// ages describe what the session keeps vacuum from removing.
func (m Model) ages(t *text, session *monitor.Session) {
	if session.XminAge != nil {
		t.fact(3, "snapshot", number(*session.XminAge)+" transactions old (holds back vacuum)")
	}
	if session.XIDAge != nil {
		t.fact(3, "own ID", number(*session.XIDAge)+" transactions old (holds back vacuum)")
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
	return fmt.Sprintf("since %s (%s)", t.In(m.snapshot.TakenAt.Location()).Format(time.DateTime+" MST"), ageOf(m.snapshot, t))
}

func (m Model) sessionText(id monitor.SessionID, width int) []string {
	t := &text{width: width}
	p := meetOne(m.snapshot, id)
	if p == nil {
		t.add(1, "it holds no advisory lock and waits for none, or has ended")
		return t.lines
	}
	role := "waits for no advisory lock"
	if p.waiter != nil {
		role = "waits for " + p.waitsFor() + ": " + m.waitPhrase(p.waiter)
	}
	m.describe(t, p.Session, role)
	t.code(p.Session)
	t.gap()
	t.add(1, "holds %s", plural(len(p.held), "lock"))
	for i, lock := range p.held {
		if i == mostListed {
			break
		}
		waiters := ""
		if n := len(lock.Waiters); n > 0 {
			waiters = ", " + plural(n, "waiter")
		}
		t.add(3, "%s%s", label(lock), waiters)
	}
	t.rest(len(p.held))
	if len(p.inWayOf) > 0 {
		t.gap()
		t.add(1, "blocks %s directly, %s in all", plural(len(p.inWayOf), "session"), number(m.snapshot.Behind()[p.ID()]))
	}
	for _, waiter := range p.inWayOf[:min(len(p.inWayOf), mostListed)] {
		since := view.Age(waited(m.snapshot, waiter.waiter))
		t.add(3, "%s, waits for %s for %s", named(waiter.Session), waiter.waitsFor(), since)
	}
	t.rest(len(p.inWayOf))
	return t.lines
}
