package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/fold"
	"github.com/pglock-toolkit/pglock/monitor"
)

// marks are the marks in the tree that need an explanation.
type marks struct{ soft, more bool }

// treeLines draws the first rows of the tree: each session below the one that blocks it.
func (p *page) treeLines(most int) (lines []string, m marks) {
	var branches []fold.Branch
	var depths []int
	left := 0
	for depth, branch := range fold.Branches(p.tree) {
		if len(branches) == most {
			left += len(branch.Nodes)
			continue
		}
		branches, depths = append(branches, branch), append(depths, depth)
	}
	if len(branches) == 0 {
		return nil, m
	}
	guides := Guides(depths)
	rows := sheet{{"SESSION", "WAITED", "MODE", "LOCK", "DOING"}}
	for i, branch := range branches {
		rows = append(rows, p.treeRow(branch, guides[i], &m))
	}
	if lines = rows.lines(p.width); left > 0 {
		lines = append(lines, fmt.Sprintf("… %d more", left))
	}
	return lines, m
}

func (p *page) treeRow(branch fold.Branch, guide string, m *marks) []string {
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
	} else if more := OtherHolders(n); more > 0 {
		name, m.more = fmt.Sprintf("%s +%d", name, more), true
	}
	if n.Kind == "soft" {
		name, m.soft = "~"+name, true
	}
	return []string{guide + name, waited, Short(mode), Printable(lock), doing}
}

// activity returns the state of a session, for how long, and what it runs or ran last.
func (p *page) activity(s monitor.Session) string {
	text := Field(s, "state", Short(s.State))
	if s.StateSince != nil {
		text += " " + p.since(s.StateSince)
	}
	if query := withoutComment(Query(s)); query != "" {
		text += ": " + Printable(query)
	}
	return text
}

// OtherHolders returns how many sessions hold what a session waits for, besides the one that is shown.
func OtherHolders(n *monitor.Node) (others int) {
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
func (p *page) foldText(b fold.Branch) string {
	text := fmt.Sprintf("%s to %s", Printable(b.First().Who()), Printable(b.Last().Who()))
	if shortest, longest, known := b.Waited(p.shown.TakenAt); known {
		text += fmt.Sprintf(", waited %s to %s", Age(shortest), Age(longest))
	}
	return text
}

func (p *page) since(t *time.Time) string {
	if t == nil {
		return unknown
	}
	return Age(p.shown.TakenAt.Sub(*t))
}

// Guides returns the lines that connect the rows of a tree with the rows above them, by the depths of the rows.
func Guides(depths []int) []string {
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
func (p *page) keyLines(most int) (lines []string) {
	rows, contended := sheet{{"KEY", "HELD BY", "MODE", "WAIT", "LONGEST", ""}}, 0
	locks := byUrgency(p.shown)
	for contended < len(locks) && len(locks[contended].Waiters) > 0 {
		contended++
	}
	listed := min(contended, most)
	if len(locks) <= most {
		listed = len(locks)
	}
	for _, lock := range locks[:listed] {
		rows = append(rows, p.keyRow(lock))
	}
	if listed > 0 {
		lines = rows.lines(p.width)
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
func onlyHolder(locks []monitor.Lock) string {
	var only *monitor.Session
	for i := range locks {
		for k := range locks[i].Holders {
			session := &locks[i].Holders[k].Session
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

func (p *page) keyRow(lock monitor.Lock) []string {
	row := []string{heading(p.shown, lock), "", "", "", "", ""}
	if n := len(lock.Waiters); n > 0 {
		row[3], row[4] = fmt.Sprint(n), Age(longest(p.shown, lock))
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
func (p *page) holderText(h monitor.Holder) string {
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
