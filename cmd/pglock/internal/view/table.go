package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Table formats the locks of a snapshot that the filter shows, in lines of at most width columns: for each lock its
// holders, then its waiters, of which those that are alike are folded. Above them stands the headline. Locks with waiters
// come first, sorted by the longest wait.
func Table(all *monitor.Snapshot, filter Filter, on Server, width int) []string {
	p := newPage(all, filter, on, width)
	return p.table(byUrgency(p.shown))
}

// Server is how a table names the server: Target in its title, and Flags on a command line ([EndCommand]). A table of the Past
// has no commands.
type Server struct {
	Target, Flags string
	Past          bool
}

// page is a snapshot that is written as a table.
type page struct {
	all, shown *monitor.Snapshot // shown has only what the filter shows
	tree       *monitor.Tree     // of all
	folds      folds
	headline   monitor.Action
	on         Server
	width      int
}

func newPage(all *monitor.Snapshot, filter Filter, on Server, width int) *page {
	tree, s := filter.named(all).Tree(), filter.shown(all)
	return &page{all: all, shown: s, tree: tree, folds: foldsOf(tree),
		headline: filter.Action(all), on: on, width: width}
}

// OneScreen is like [Table], but returns at most height lines. It says how many locks do not fit, and leaves out locks
// without waiters first.
func OneScreen(all *monitor.Snapshot, filter Filter, on Server, width, height int) []string {
	p := newPage(all, filter, on, width)
	locks := byUrgency(p.shown)
	lines := p.table(locks)
	if len(lines) <= height {
		return lines
	}
	for n := min(len(locks), height); ; n-- {
		lines = p.table(locks[:n])
		if len(lines) < height || n == 0 {
			lines = lines[:min(len(lines), height-1)]
			return append(lines, Cut(fmt.Sprintf("… %d more keys: pglock monitor --once", len(locks)-n), width))
		}
	}
}

// table formats some of the locks, with the totals of all that are shown.
func (p *page) table(locks []monitor.Lock) []string {
	lines := []string{Cut(title(p.shown, p.on.Target), p.width), ""}
	sessions, marks := p.body(locks)
	for i, part := range [][]string{
		HeadlineLines(p.headline, p.on, p.width),
		p.deadlockLines(), sessions, p.otherWaits(), p.notes(marks),
	} {
		if len(part) > 0 && i > 0 {
			lines = append(lines, "")
		}
		for _, line := range part {
			lines = append(lines, Cut(line, p.width))
		}
	}
	return lines
}

// shown returns the locks that the filter shows, with their names.
func (f Filter) shown(all *monitor.Snapshot) *monitor.Snapshot { return f.named(f.Apply(all)) }

func title(s *monitor.Snapshot, target string) string {
	version, _, _ := strings.Cut(s.ServerVersion, " ") // packagers append their own version
	return fmt.Sprintf("%s  PostgreSQL %s%s  %s", Printable(target), Printable(version), StandbyMark(s),
		s.TakenAt.Format("2006-01-02 15:04:05 MST"))
}

// StandbyMark returns the text after the version of a standby, whose advisory locks are its own. It is empty for a
// primary.
func StandbyMark(s *monitor.Snapshot) string {
	if s.Server.InRecovery {
		return " STANDBY"
	}
	return ""
}

// entry is a line of the body: text, or a row of the grid.
type entry struct {
	text string
	row  *row
}

// marks are the marks in the table that need an explanation.
type marks struct {
	soft, more bool
	left       []string // columns that are left out
}

func (p *page) body(locks []monitor.Lock) (lines []string, m marks) {
	if len(locks) == 0 {
		return nil, m
	}
	g := newGrid()
	head := g.head()
	entries := []entry{{row: &head}}
	for _, lock := range locks {
		entries = append(entries, p.entriesOf(lock)...)
	}
	for _, e := range entries {
		if e.row != nil {
			g.widen(*e.row)
		}
	}
	m.left = g.fitInto(p.width)
	for _, e := range entries {
		if e.row != nil {
			e.text = g.line(*e.row)
			blockers := separator + g.blockers(*e.row)
			m.soft = m.soft || strings.Contains(blockers, separator+"~")
			m.more = m.more || strings.Contains(blockers, separator+"+")
		}
		lines = append(lines, e.text)
	}
	return lines, m
}

func (p *page) entriesOf(lock monitor.Lock) []entry {
	s, tree := p.shown, p.tree
	entries := []entry{{text: heading(s, lock, p.width)}}
	for _, holder := range lock.Holders {
		entries = append(entries, entry{row: holderRow(s, holder)})
		if what := doing(s, holder.Session); what != "" && len(lock.Waiters) > 0 {
			entries = append(entries, entry{text: "        " + what})
		}
		if held := heldBy(s, holder); held != "" && (len(lock.Waiters) > 0 || lock.InRow) {
			entries = append(entries, entry{text: "        " + held})
		}
		if blocked := Blocked(tree.Node(holder.ID())); blocked != "" {
			entries = append(entries, entry{text: "        " + blocked})
		}
	}
	label := lock.Label()
	for _, waiter := range lock.Waiters {
		below, hidden := p.folds.of(waiter.ID(), label, s.TakenAt)
		if hidden {
			continue
		}
		if entries = append(entries, entry{row: waiterRow(s, tree, waiter)}); below != "" {
			entries = append(entries, entry{text: "        " + below})
		}
	}
	return entries
}

// heldBy says since when a holder has its lock or has been seen with it, and which code took it, if that is known.
func heldBy(s *monitor.Snapshot, holder monitor.Holder) string {
	switch {
	case holder.SeenSince == nil:
		return ""
	case holder.Lease != nil:
		return fmt.Sprintf("since %s, %s, generation %d", Age(s.TakenAt.Sub(*holder.SeenSince)), Lease(holder.Lease, s.TakenAt), holder.Generation)
	}
	text := journal.HeldText(*holder.SeenSince, s.TakenAt)
	if holder.Code != "" {
		text += ", " + holder.Code
	}
	return Printable(text)
}

// byUrgency sorts the locks. Locks without waiters keep their order in the snapshot.
func byUrgency(s *monitor.Snapshot) []monitor.Lock {
	locks := slices.Clone(s.Locks)
	slices.SortStableFunc(locks, func(a, b monitor.Lock) int { return cmp.Compare(longest(s, b), longest(s, a)) })
	return locks
}

// longest returns the longest wait for the lock, or a negative duration without waiters.
func longest(s *monitor.Snapshot, lock monitor.Lock) time.Duration {
	wait := time.Duration(-1)
	for _, waiter := range lock.Waiters {
		wait = max(wait, 0)
		if waiter.WaitingSince != nil {
			wait = max(wait, s.TakenAt.Sub(*waiter.WaitingSince))
		}
	}
	return wait
}

// heading returns a lock's own line: its key, and the number after a name or a guess.
func heading(s *monitor.Snapshot, lock monitor.Lock, width int) string {
	var facts string
	label := Printable(lock.Label())
	switch {
	case len(lock.Names) > 0:
		facts += fmt.Sprintf("  @%d", lock.Number)
	case len(lock.Guesses) > 0:
		facts += "  " + lock.Key
	}
	if len(lock.Names) > 1 {
		facts += fmt.Sprintf("  (%d names with one number)", len(lock.Names))
	}
	if lock.Database != s.Database {
		facts += "  in database " + Printable(cmp.Or(lock.Database, fmt.Sprint(lock.DatabaseOID)))
	}
	if label != lock.Key || len(lock.Names) > 0 { // a truncated number is useless
		const least = 20 // even if the rest is long
		label = Cut(label, max(width-Columns(facts), least))
	}
	return label + facts
}

// deadlockLines describes the cycles but that of the headline. They stand above the locks.
func (p *page) deadlockLines() (lines []string) {
	for _, cycle := range p.shown.Cycles {
		if p.headline.Cycle == nil || !slices.Equal(p.headline.Cycle.Steps, cycle.Steps) {
			lines = append(lines, Wrap(Printable(Deadlock(p.shown, cycle)), p.width, "  ")...)
		}
	}
	return lines
}

// Deadlock describes a cycle in a sentence. Its names are not made printable.
func Deadlock(s *monitor.Snapshot, cycle monitor.Cycle) string {
	what := "POSSIBLE DEADLOCK through sessions of one process, which PostgreSQL cannot see"
	if cycle.Certain {
		what = "DEADLOCK"
	}
	if cycle.Since != nil {
		what += " for " + Age(s.TakenAt.Sub(*cycle.Since))
	}
	var steps []string
	for _, step := range cycle.Steps {
		steps = append(steps, fmt.Sprintf("%d waits for %s behind %d", step.PID, step.Key, step.BlockedBy))
	}
	return what + ": " + strings.Join(steps, ", ")
}

// notes returns the end of a table: how much it shows, what its marks mean, and what is missing.
func (p *page) notes(m marks) []string {
	s := p.shown
	texts := []string{total(s, len(p.all.Locks)-len(s.Locks))}
	if text := lockTable(s.Capacity); text != "" {
		texts = append(texts, text)
	}
	if text := vacuum(s); text != "" {
		texts = append(texts, text)
	}
	if m.soft {
		texts = append(texts, "~ does not hold the lock, but waits for it ahead in the queue")
	}
	if len(m.left) > 0 {
		texts = append(texts, "too narrow for "+strings.Join(m.left, ", "))
	}
	if m.more {
		texts = append(texts, "+n: n more blockers")
	}
	for _, missing := range []struct{ what, why string }{
		{"names", s.NamesMissing}, {"hidden", s.DetailsHidden}, {"blocked by", s.BlockersMissing},
		{"locks in rows", s.RowLocksMissing},
	} {
		if missing.why != "" {
			texts = append(texts, missing.what+": "+Printable(missing.why))
		}
	}
	var lines []string
	for _, text := range texts {
		lines = append(lines, Wrap(text, p.width, "  ")...)
	}
	return lines
}

// total also counts locks that were filtered out, since an empty table would look as if all locks were free.
func total(s *monitor.Snapshot, others int) string {
	switch {
	case len(s.Locks) == 0 && others == 0 && len(s.OtherWaits) > 0:
		return fmt.Sprintf("no advisory locks; %s for other locks", sessionsWait(OtherWaiters(s)))
	case len(s.Locks) == 0 && others == 0:
		return "no advisory locks"
	case len(s.Locks) == 0:
		return fmt.Sprintf("no advisory locks match the filters; %s not shown", count(others, "key"))
	}
	return counts(s)
}

func sessionsWait(n int) string {
	if n == 1 {
		return "1 session waits"
	}
	return fmt.Sprintf("%d sessions wait", n)
}

// vacuum names the session that holds back vacuum most, if it holds it back far.
func vacuum(s *monitor.Snapshot) string {
	const worthALine = 10_000 // transactions
	var oldest monitor.Session
	age := int64(0)
	look := func(session monitor.Session) {
		for _, own := range []*int64{session.XminAge, session.XIDAge} {
			if own != nil && *own > age {
				oldest, age = session, *own
			}
		}
	}
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			look(holder.Session)
		}
		for _, waiter := range lock.Waiters {
			look(waiter.Session)
		}
	}
	if age < worthALine {
		return ""
	}
	return fmt.Sprintf("vacuum: %s holds it back by %d transactions", Who(oldest), age)
}

// lockTable says how full the lock table is. The server may have room beyond the nominal size.
func lockTable(c monitor.Capacity) string {
	if c.Nominal == 0 {
		return ""
	}
	return fmt.Sprintf("lock table: at least %.1f%% of nominal, %d of %d entries, %d of them advisory",
		c.Percent(), c.Used, c.Nominal, c.Advisory)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// doing describes the state of a holder that others wait for.
func doing(s *monitor.Snapshot, session monitor.Session) string {
	if session.StateSince == nil || session.Since == nil {
		return ""
	}
	what := fmt.Sprintf("%s for %s, session %s", Short(session.State),
		Age(s.TakenAt.Sub(*session.StateSince)), Age(s.TakenAt.Sub(*session.Since)))
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
