package tui

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// rowKeyText describes a lock in a row.
func (m Model) rowKeyText(k keyInfo, width int) []string {
	t, lock := &text{width: width}, k.inRow
	t.field(1, "key", view.Printable(lock.Key))
	t.field(1, "number", fmt.Sprint(lock.Number))
	t.field(1, "database", view.Printable(m.snapshot.Database))
	t.blank()
	t.add(1, "%s", plural(len(lock.Holders), "holder"))
	for i := range lock.Holders[:min(len(lock.Holders), maxListed)] {
		h := &lock.Holders[i]
		m.describeProcess(t, &h.RowProcess, "holds it"+m.heldText(h))
	}
	t.more(len(lock.Holders))
	t.blank()
	t.add(1, "%s", plural(len(lock.Waiters), "waiter"))
	tree := m.snapshot.RowTree()
	for i := range lock.Waiters[:min(len(lock.Waiters), maxListed)] {
		w := &lock.Waiters[i]
		m.describeProcess(t, &w.RowProcess, m.rowWaitText(tree.Node(monitor.SessionID{Holder: w.Holder}), w.Mode, w.WaitingSince))
	}
	t.more(len(lock.Waiters))
	return t.lines
}

// heldText says how and since when a process holds a lock in a row.
func (m Model) heldText(h *monitor.RowHolder) string {
	return fmt.Sprintf(" %s for %s, generation %d", view.Printable(string(h.Mode)), view.Age(m.snapshot.TakenAt.Sub(h.HeldSince)), h.Generation)
}

func (m Model) rowWaitText(n *monitor.Node, mode monitor.Mode, since time.Time) string {
	text := fmt.Sprintf("wants it %s, waits for %s", view.Printable(string(mode)), view.Age(m.snapshot.TakenAt.Sub(since)))
	if n != nil && n.Blocker != nil {
		text += ", blocked by " + nodeLabel(n.Blocker)
	}
	return text
}

func processCount(n int) string {
	if n == 1 {
		return "1 process"
	}
	return number(n) + " processes"
}

// describeProcess adds everything that is known about a process.
func (m Model) describeProcess(t *text, p *monitor.RowProcess, role string) {
	session := sessionOf(m.snapshot, p)
	t.add(1, "%s %s", processLabel(p), role)
	t.field(3, "holder", view.Printable(p.Holder))
	t.field(3, "user", view.Field(*session, "user", p.User))
	t.field(3, "application", view.Field(*session, "application", p.Application))
	t.field(3, "host", view.Field(*session, "client", p.Host))
	t.field(3, "process", either(view.Field(*session, "session_since", ""), m.since(p.Since)))
	t.field(3, "lease", view.Lease(*p, m.snapshot.TakenAt))
}

// processText describes a process with its locks in rows.
func (m Model) processText(p *sessionInfo, width int) []string {
	t := &text{width: width}
	role := "waits for no lock in a row"
	if wait := p.wait(); wait != nil && wait.WaitingSince != nil {
		role = "waits for " + waitLabel(*wait) + ": " + m.rowWaitText(p.node, wait.Mode, *wait.WaitingSince)
	}
	m.describeProcess(t, p.process, role)
	t.blank()
	t.held(p, func(k keyInfo) string {
		if h := heldRow(k.inRow, p.process.Holder); h != nil {
			return m.heldText(h)
		}
		return ""
	})
	if p.node == nil || p.node.Behind == 0 {
		return t.lines
	}
	t.blank()
	t.add(1, "blocks %s directly, %s in all", processCount(len(p.node.Children)), number(p.node.Behind))
	for _, n := range p.node.Children[:min(len(p.node.Children), maxListed)] {
		t.add(3, "%s, waits for %s for %s", nodeLabel(n), waitLabel(*n.Wait), view.Age(waited(m.snapshot, n.Wait.Waiter)))
	}
	t.more(len(p.node.Children))
	return t.lines
}
