package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// marks are the marks in the tree that need an explanation.
type marks struct{ soft, more bool }

// treeLines draws the first rows of the tree: each session below the one that blocks it.
func (p *Page) treeLines(most, width int) (lines []string, m marks) {
	branches, guides := p.Rows(false)
	shown := branches[:min(most, len(branches))]
	if len(shown) == 0 {
		return nil, m
	}
	rows := sheet{{"SESSION", "WAITED", "MODE", "LOCK", "DOING"}}
	for i, branch := range shown {
		rows = append(rows, p.TreeCells(branch, guides[i]))
		m.soft = m.soft || branch.First().Kind == "soft"
		m.more = m.more || !branch.Folded() && otherHolders(branch.First()) > 0
	}
	left := 0
	for _, branch := range branches[len(shown):] {
		left += len(branch.Nodes)
	}
	if lines = rows.lines(width); left > 0 {
		lines = append(lines, fmt.Sprintf("… %d more", left))
	}
	return lines, m
}

// Rows returns what is drawn of the tree from top to bottom, with the lines that connect each row with those above it. If flat is
// set, sessions that are alike have a row each.
func (p *Page) Rows(flat bool) (branches []fold.Branch, guides []string) {
	var depths []int
	for depth, branch := range fold.Branches(p.tree) {
		if !flat {
			branches, depths = append(branches, branch), append(depths, depth)
			continue
		}
		for _, n := range branch.Nodes {
			branches, depths = append(branches, fold.Branch{Nodes: []*monitor.Node{n}}), append(depths, depth)
		}
	}
	return branches, guidesOf(depths)
}

// TreeCells returns the printable cells of a row: the session, how long it has waited, the mode, the lock that it waits for or
// that others wait for, and what it does. ~ marks a session that is only behind another in the queue, and +n says that n more
// sessions hold what it waits for.
func (p *Page) TreeCells(branch fold.Branch, guide string) []string {
	n := branch.First()
	name, waited, lock, mode := Named(*n.Session), "holds", "", ""
	doing := p.activity(*n.Session)
	switch {
	case n.Lease != nil:
		doing = Lease(n.Lease, p.shown.TakenAt)
	case n.Prepared():
		doing = "prepared " + p.since(n.PreparedAt) + " ago"
	}
	if n.Wait != nil {
		waited, lock, mode = p.since(n.Wait.WaitingSince), n.Wait.Label(), n.Wait.Mode
	} else if label, held, ok := n.Held(); ok {
		lock, mode = label, held
	}
	if branch.Folded() {
		name, doing = fmt.Sprintf("%d waiters", len(branch.Nodes)), p.foldText(branch)
	} else if more := otherHolders(n); more > 0 {
		name = fmt.Sprintf("%s +%d", name, more)
	}
	if n.Kind == "soft" {
		name = "~" + name
	}
	return []string{guide + name, waited, Short(mode), Printable(lock), doing}
}

// activity returns the state of a session, for how long, and what it runs or ran last.
func (p *Page) activity(s monitor.Session) string {
	text := Field(s, "state", Short(s.State))
	if s.StateSince != nil {
		text += " " + p.since(s.StateSince)
	}
	if query := withoutComment(Query(s)); query != "" {
		text += ": " + Printable(query)
	}
	return text
}

// otherHolders returns how many sessions hold what a session waits for, besides the one that is shown.
func otherHolders(n *monitor.Node) (others int) {
	if n.Blocker == nil {
		return 0
	}
	for _, b := range n.Wait.BlockedBy {
		if b.Kind == "hard" && b.ID() != n.Blocker.ID() {
			others++
		}
	}
	return others
}

// foldText says which waiters a row stands for, and how long they have waited.
func (p *Page) foldText(b fold.Branch) string {
	text := fmt.Sprintf("%s to %s", Printable(b.First().Who()), Printable(b.Last().Who()))
	if shortest, longest, known := b.Waited(p.shown.TakenAt); known {
		text += fmt.Sprintf(", waited %s to %s", display.Age(shortest), display.Age(longest))
	}
	return text
}

func (p *Page) since(t *time.Time) string {
	if t == nil {
		return unknown
	}
	return display.Age(p.shown.TakenAt.Sub(*t))
}

// guidesOf returns the lines that connect the rows of a tree with the rows above them, by the depths of the rows.
func guidesOf(depths []int) []string {
	guides, open := make([]string, len(depths)), map[int]bool{} // open says that a sibling follows at a depth
	for i := len(depths) - 1; i >= 0; i-- {
		depth, guide := depths[i], ""
		for d := 1; d < depth; d++ {
			if open[d] {
				guide += "│  "
			} else {
				guide += "   "
			}
		}
		switch {
		case depth == 0:
		case open[depth]:
			guide += "├─ "
		default:
			guide += "└─ "
		}
		guides[i] = guide
		for d := range open {
			if d > depth {
				delete(open, d)
			}
		}
		open[depth] = true
	}
	return guides
}

// keyLines lists the contended keys, those with the longest waits first, and then the others, unless they are many.
func (p *Page) keyLines(most, width int) (lines []string) {
	rows := sheet{{"KEY", "HELD BY", "MODE", "WAIT", "LONGEST", ""}}
	locks, contended := p.Keys()
	listed := min(contended, most)
	if len(locks) <= most {
		listed = len(locks)
	}
	for _, lock := range locks[:listed] {
		rows = append(rows, p.KeyCells(lock))
	}
	if listed > 0 {
		lines = rows.lines(width)
	}
	if more := contended - listed; more > 0 {
		lines = append(lines, fmt.Sprintf("… %s with waiters", count(more, "more key")))
	}
	if idle := locks[max(contended, listed):]; len(idle) > 0 {
		lines = append(lines, fmt.Sprintf("%s without waiters%s (pglock monitor -o json lists them)", count(len(idle), "key"), onlyHolder(idle)))
	}
	return lines
}

// onlyHolder names the one session that holds all of the locks, if there is one.
func onlyHolder(locks []*monitor.Lock) string {
	var only *monitor.Session
	for _, lock := range locks {
		for k := range lock.Holders {
			session := &lock.Holders[k].Session
			if only != nil && only.ID() != session.ID() {
				return ""
			}
			only = session
		}
	}
	if only == nil {
		return ""
	}
	return ", held by " + Named(*only)
}

// Keys returns the locks, those with the longest waits first, and how many of them have waiters. Those without waiters keep their
// order in the snapshot.
func (p *Page) Keys() (all []*monitor.Lock, contended int) {
	var idle []*monitor.Lock
	for i := range p.shown.Locks {
		if lock := &p.shown.Locks[i]; len(lock.Waiters) > 0 {
			all = append(all, lock)
		} else {
			idle = append(idle, lock)
		}
	}
	slices.SortStableFunc(all, func(a, b *monitor.Lock) int { return cmp.Compare(p.Longest(b), p.Longest(a)) })
	return append(all, idle...), len(all)
}

// Longest returns the longest wait for the lock, or 0.
func (p *Page) Longest(lock *monitor.Lock) (wait time.Duration) {
	for _, waiter := range lock.Waiters {
		if waiter.WaitingSince != nil {
			wait = max(wait, p.shown.TakenAt.Sub(*waiter.WaitingSince))
		}
	}
	return wait
}

// KeyCells returns the printable cells of a lock: the key, the first holders, how the first one holds it, the number of waiters,
// the longest wait, and what is known of the first holder.
func (p *Page) KeyCells(lock *monitor.Lock) []string {
	row := []string{heading(p.shown, *lock), "", "", "", "", ""}
	if n := len(lock.Waiters); n > 0 {
		row[3], row[4] = fmt.Sprint(n), display.Age(p.Longest(lock))
	}
	var names []string
	for i := range lock.Holders {
		if name := Named(lock.Holders[i].Session); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	const most = 2
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("+%d", more))
	}
	if row[1] = strings.Join(names, ", "); len(lock.Holders) > 0 {
		row[2], row[5] = Short(lock.Holders[0].Mode), p.holderText(lock.Holders[0])
	}
	return row
}

// holderText describes a holder: since when it has the lock, as far as that is known, and what it does.
func (p *Page) holderText(h monitor.Holder) string {
	held := heldBy(p.shown, h)
	switch {
	case h.Prepared():
		return "prepared " + p.since(h.PreparedAt) + " ago"
	case h.Lease != nil:
		return held + "; " + Process(h.Session)
	case held != "":
		return held
	}
	return p.activity(h.Session)
}

// heading returns a lock's key, with the number after a name or a guess, and its database if that is not the connected one.
func heading(s *monitor.Snapshot, lock monitor.Lock) string {
	text := Printable(lock.Label())
	switch {
	case len(lock.Names) > 1:
		text += fmt.Sprintf(" @%d (%d names)", lock.Number, len(lock.Names))
	case len(lock.Names) > 0:
		text += fmt.Sprintf(" @%d", lock.Number)
	case len(lock.Guesses) > 0:
		text += " " + Printable(lock.Key)
	}
	if lock.Database != s.Database {
		text += " in " + Printable(cmp.Or(lock.Database, fmt.Sprint(lock.DatabaseOID)))
	}
	return text
}

// sheet has rows of cells, of which the first row is the head. The last cell of a row takes the room that is left.
type sheet [][]string

// lines aligns the cells in lines of at most width columns, the widest of which give way first.
func (s sheet) lines(width int) []string {
	const least, last = 6, 12 // columns of a cell that gives way, and of the last one
	n := len(s[0]) - 1
	widths, total := make([]int, n), 0
	for i := range widths {
		for _, row := range s {
			widths[i] = max(widths[i], Columns(row[i]))
		}
		total += widths[i] + 1
	}
	for widest := 0; total > width-last; total-- {
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	lines := make([]string, len(s))
	for k, row := range s {
		for i, cell := range row[:n] {
			lines[k] += Fit(cell, widths[i], s[0][i] == "WAITED" || s[0][i] == "WAIT" || s[0][i] == "LONGEST") + " "
		}
		lines[k] = Cut(strings.TrimRight(lines[k]+row[n], " "), width)
	}
	return lines
}
