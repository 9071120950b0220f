package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// maxTree and maxKeyRows are how many rows of the tree and keys a text has, so that it fits a page of 60 lines.
const maxTree, maxKeyRows = 24, 10

// Server is how a text names the server: Target in its title, and Flags on a command line ([EndCommand]). A text of the Past
// has no commands.
type Server struct {
	Target, Flags string
	Past          bool
}

// Table describes what the filter shows of a snapshot in lines of at most width columns: the action, the tree of blockers with
// the culprit first, the contended keys, and the number of the others.
func Table(all *monitor.Snapshot, filter Filter, on Server, width int) []string {
	return NewPage(all, filter, on).lines(maxTree, width)
}

// OneScreen is like [Table], but returns at most height lines.
func OneScreen(all *monitor.Snapshot, filter Filter, on Server, width, height int) []string {
	p := NewPage(all, filter, on)
	for n := maxTree; ; n-- {
		if lines := p.lines(n, width); len(lines) <= height || n == 0 {
			return lines[:min(len(lines), height)]
		}
	}
}

// Page is what a filter shows of a snapshot, as text. All faces on a terminal have it.
type Page struct {
	Action     monitor.Action
	all, shown *monitor.Snapshot // shown has only what the filter shows
	tree       *monitor.Tree     // of what is shown
	on         Server
}

// NewPage returns what the filter shows of a snapshot.
func NewPage(all *monitor.Snapshot, filter Filter, on Server) *Page {
	return &Page{Action: filter.Action(all), all: all, shown: filter.shown(all), tree: filter.Tree(filter.named(all)), on: on}
}

// lines returns the text with at most so many rows of the tree.
func (p *Page) lines(rows, width int) []string {
	lines := []string{Cut(p.Title()+"  "+p.shown.TakenAt.Format("2006-01-02 15:04:05 MST"), width), ""}
	lines = append(lines, HeadlineLines(p.Action, p.on, width)...)
	tree, marks := p.treeLines(rows, width)
	for _, part := range [][]string{p.DeadlockLines(width), tree, p.keyLines(min(rows, maxKeyRows), width), p.notes(marks, width)} {
		if len(part) > 0 {
			lines = append(lines, "")
		}
		for _, line := range part {
			lines = append(lines, Cut(line, width))
		}
	}
	return lines
}

// shown returns the locks that the filter shows, with their names.
func (f Filter) shown(all *monitor.Snapshot) *monitor.Snapshot { return f.named(f.Apply(all)) }

// Title names the server, its version, and whether it is a standby, whose advisory locks are its own.
func (p *Page) Title() string {
	version, _, _ := strings.Cut(p.shown.ServerVersion, " ") // packagers append their own version
	title := fmt.Sprintf("%s  PostgreSQL %s", Printable(TargetOf(p.on.Target, p.shown)), Printable(version))
	if p.shown.Server.InRecovery {
		title += " STANDBY"
	}
	return title
}

// TargetOf names the server of a snapshot: of the hosts of a target, if there are several, it says which one answered.
func TargetOf(target string, s *monitor.Snapshot) string {
	if at := s.Server; strings.Contains(target, ",") {
		at.InRecovery = false // said elsewhere
		return target + " at " + at.String()
	}
	return target
}

// heldBy says since when a holder has its lock or has been seen with it, and which code took it, if that is known.
func heldBy(s *monitor.Snapshot, holder monitor.Holder) string {
	switch {
	case holder.SeenSince == nil:
		return ""
	case holder.Lease != nil:
		return fmt.Sprintf("since %s, %s, generation %d", display.Age(s.TakenAt.Sub(*holder.SeenSince)), Lease(holder.Lease, s.TakenAt), holder.Generation)
	}
	text := journal.HeldText(*holder.SeenSince, s.TakenAt)
	if holder.Code != "" {
		text += ", " + holder.Code
	}
	return Printable(text)
}

// DeadlockLines describes the cycles but that of the headline. They stand above the locks.
func (p *Page) DeadlockLines(width int) (lines []string) {
	for _, cycle := range p.shown.Cycles {
		if p.Action.Cycle == nil || !slices.Equal(p.Action.Cycle.Steps, cycle.Steps) {
			lines = append(lines, Wrap(Printable(deadlock(p.shown, cycle)), width, "  ")...)
		}
	}
	return lines
}

// deadlock describes a cycle in a sentence. Its names are not made printable.
func deadlock(s *monitor.Snapshot, cycle monitor.Cycle) string {
	what := "POSSIBLE DEADLOCK between processes"
	if cycle.Certain {
		what = "DEADLOCK"
	}
	if cycle.Since != nil {
		what += " for " + display.Age(s.TakenAt.Sub(*cycle.Since))
	}
	return what + ": " + cycle.String() + journal.Waits(cycle.Steps)
}

// Notes says how much there is, how full the lock table is, and what could not be seen, and why.
func (p *Page) Notes(width int) []string { return p.notes(marks{}, width) }

// notes returns the end of a text, with what its marks mean.
func (p *Page) notes(m marks, width int) []string {
	s := p.shown
	texts := []string{p.Total()}
	if text := lockTable(s.Capacity); text != "" {
		texts = append(texts, text)
	}
	if m.soft {
		texts = append(texts, "~ does not hold the lock, but waits for it ahead in the queue")
	}
	if m.more {
		texts = append(texts, "+n: n more sessions hold what it waits for")
	}
	for _, missing := range []struct{ what, why string }{
		{"names", s.NamesMissing}, {"hidden", s.DetailsHidden}, {"blocked by", s.BlockersMissing},
		{"locks in rows", s.RowLocksMissing},
		{"locks in rows", s.IdleRowsMissing},
	} {
		if missing.why != "" {
			texts = append(texts, missing.what+": "+Printable(missing.why))
		}
	}
	var lines []string
	for _, text := range texts {
		lines = append(lines, Wrap(text, width, "  ")...)
	}
	return lines
}

// Total counts what is shown, and locks that were filtered out, since an empty text would look as if all locks were free.
func (p *Page) Total() string {
	s, others := p.shown, len(p.all.Locks)-len(p.shown.Locks)
	text := "no advisory locks"
	switch holders, waiters := parties(s); {
	case len(s.Locks) > 0:
		text = fmt.Sprintf("%s, %s, %s", count(len(s.Locks), "key"), count(holders, "holder"), count(waiters, "waiter"))
	case others > 0:
		text = fmt.Sprintf("no advisory locks match the filters; %s not shown", count(others, "key"))
	}
	if n := OtherWaiters(s); n > 0 {
		text += fmt.Sprintf("; %s for other locks", count(n, "waiter"))
	}
	return text
}

// parties counts holders and waiters.
func parties(s *monitor.Snapshot) (holders, waiters int) {
	for _, lock := range s.Locks {
		holders, waiters = holders+len(lock.Holders), waiters+len(lock.Waiters)
	}
	return holders, waiters
}

// OtherWaiters counts the sessions that wait for locks that are not advisory, each once.
func OtherWaiters(s *monitor.Snapshot) int {
	waiters := map[monitor.SessionID]bool{}
	for i := range s.OtherWaits {
		waiters[s.OtherWaits[i].ID()] = true
	}
	return len(waiters)
}

// lockTable says how full the lock table is, and which sessions fill it. The server may have room beyond the nominal size.
func lockTable(c monitor.Capacity) string {
	if c.Nominal == 0 {
		return ""
	}
	text := fmt.Sprintf("lock table: at least %.1f%% of nominal, %d of %d entries, %d of them advisory",
		c.Percent(), c.Used, c.Nominal, c.Advisory)
	if c.Percent() >= AlertPercent {
		for _, load := range c.Top {
			text += fmt.Sprintf("; %s has %d", Named(load.Session), load.Locks)
		}
	}
	return text
}

// AlertPercent is how full a lock table is, in percent, when it needs attention.
const AlertPercent = 75

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// doing describes the state of a session, and what it runs or ran last.
func doing(s *monitor.Snapshot, session monitor.Session) string {
	if session.StateSince == nil || session.Since == nil {
		return ""
	}
	what := fmt.Sprintf("%s for %s, session %s", Short(session.State),
		display.Age(s.TakenAt.Sub(*session.StateSince)), display.Age(s.TakenAt.Sub(*session.Since)))
	if query := withoutComment(Query(session)); query != "" {
		what += ": " + query
	}
	return Printable(what)
}

// withoutComment returns a query on one line, without the leading comment lines of generated queries.
func withoutComment(query string) string {
	query = strings.TrimSpace(query)
	for strings.HasPrefix(query, "--") {
		_, query, _ = strings.Cut(query, "\n")
		query = strings.TrimSpace(query)
	}
	return strings.Join(strings.Fields(query), " ")
}

// RowsMissing says why locks in rows could not be read, or are left out. It is empty if none are.
func RowsMissing(s *monitor.Snapshot) string { return cmp.Or(s.RowLocksMissing, s.IdleRowsMissing) }
