package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// infoText describes the server in more detail than the header: deadlocks step by step, the use of the lock table,
// and what the server does not show.
func infoText(m Model, width int) []string {
	t, s := &text{width: width}, m.snapshot
	t.field(1, "server", view.Printable(m.options.Target))
	t.field(1, "version", "PostgreSQL "+view.Printable(s.ServerVersion))
	t.field(1, "database", view.Printable(s.Database))
	t.field(1, "role", view.Printable(s.Role))
	for _, cycle := range s.Cycles {
		t.cycle(s, cycle)
	}
	t.capacity(s)
	for _, gap := range m.gaps() {
		t.blank()
		t.add(1, "no %s: %s", gap.what, view.Printable(gap.why))
	}
	if s.RowLocksMissing != "" {
		t.blank()
		t.add(1, "locks in rows: %s", view.Printable(s.RowLocksMissing))
	}
	return t.lines
}

func (t *text) cycle(s *monitor.Snapshot, cycle monitor.Cycle) {
	t.blank()
	t.add(1, "%s", view.Printable(view.Deadlock(s, cycle)))
	if cycle.Certain {
		t.add(3, "PostgreSQL checks once in each wait, after deadlock_timeout, and then ends one of these waits. A deadlock that "+
			"has outlived it stays until one of the sessions is cancelled (c) or terminated (t).")
		return
	}
	t.add(3, "It is a deadlock if the same task of process %s holds the one lock and waits for the other. PostgreSQL "+
		"does not see it, since it treats the sessions of a process as unrelated.", processes(cycle))
}

// processes names the processes in a cycle.
func processes(cycle monitor.Cycle) string {
	var names []string
	for _, step := range cycle.Steps {
		if name := view.Printable(step.Process); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and of process ")
}

func (t *text) capacity(s *monitor.Snapshot) {
	c := s.Capacity
	if c.Nominal <= 0 {
		return
	}
	t.blank()
	t.add(1, "lock table: %s of nominally %s entries (%s) are in use, %s of them advisory locks",
		number(c.Used), number(c.Nominal), percent(c.Percent()), number(c.Advisory))
	t.add(3, "nominal = max_locks_per_transaction %d × (max_connections %d + max_prepared_transactions %d)",
		c.MaxLocksPerTransaction, c.MaxConnections, c.MaxPreparedTransactions)
	for _, load := range c.Top {
		session := load.Session
		t.add(3, "%s", fmt.Sprintf("%8s  %s", number(load.Locks), sessionLabel(&session)))
	}
}
