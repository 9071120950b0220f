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
	text := []string{fmt.Sprintf("process %s, %s", Process(t.RowProcess), Lease(t.RowProcess, s.TakenAt))}
	keys := count(len(t.Locks), "key")
	if t.More {
		keys = fmt.Sprintf("more than %d keys, of which these are the first", len(t.Locks))
	}
	text = append(text, "The process itself goes on. It is told at its next renewal, a third of its lease later at most; until then it believes "+
		"that it holds its locks. GuardTx and fencing tokens keep in order what it writes.",
		fmt.Sprintf("it holds %s, which would be free at once:", keys))
	for _, held := range t.Locks {
		line := fmt.Sprintf("  %s  %s  since %s, generation %d", Printable(held.Key), Short(string(held.Mode)),
			Age(s.TakenAt.Sub(held.HeldSince)), held.Generation)
		if n := len(waiters[held.Key]); n > 0 {
			line += ", " + count(n, "waiter")
		}
		text = append(text, line)
	}
	var shown []string
	for _, line := range text {
		shown = append(shown, Wrap(line, width, "    ")...)
	}
	return shown
}
