package view

import (
	"fmt"

	"github.com/pglock-toolkit/pglock/monitor"
)

// PreviewHolder says what ends with a process that holds locks in rows: all its keys, of which there can be many, and how
// many processes wait for each.
func PreviewHolder(s *monitor.Snapshot, t monitor.RowTarget, width int) []string {
	waiters := map[string][]monitor.RowWaiter{}
	for _, lock := range s.RowLocks {
		waiters[lock.Key] = lock.Waiters
	}
	lines := Wrap(fmt.Sprintf("process %s, %s", Process(t.RowProcess), Lease(t.RowProcess, s.TakenAt)), width, "  ")
	if n := s.RowTree().Node(monitor.SessionID{Holder: t.Holder}); n != nil && n.Behind > 0 {
		lines = append(lines, fmt.Sprintf("In all, %s blocked by it.", processes(n.Behind)))
	}
	lines = append(lines, Wrap("The process itself goes on. It is told at its next renewal, a third of its lease later at most; until then it "+
		"believes that it holds its locks. GuardTx and fencing tokens keep in order what it writes.", width, "  ")...)
	keys := count(len(t.Locks), "key")
	if t.More {
		keys = fmt.Sprintf("more than %d keys, of which these are the first", len(t.Locks))
	}
	lines = append(lines, Wrap(fmt.Sprintf("it holds %s, which would be free at once:", keys), width, "  ")...)
	for _, held := range t.Locks {
		line := fmt.Sprintf("%s %s since %s, generation %d", Printable(held.Key), Short(string(held.Mode)),
			Age(s.TakenAt.Sub(held.HeldSince)), held.Generation)
		if n := len(waiters[held.Key]); n > 0 {
			line += ", " + count(n, "waiter")
		}
		for _, part := range Wrap(line, width-2, "  ") {
			lines = append(lines, "  "+part)
		}
	}
	return lines
}

// processes says how many processes are blocked.
func processes(n int) string {
	if n == 1 {
		return "1 process is"
	}
	return fmt.Sprintf("%d processes are", n)
}
