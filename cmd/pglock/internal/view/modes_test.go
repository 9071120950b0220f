package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// TestLocksOfOtherTypesHaveModes wants to see how each lock is held, of all roots, and how it is wanted.
func TestLocksOfOtherTypesHaveModes(t *testing.T) {
	s := snapshot()
	orders, t2 := monitor.OtherLock{Type: "relation", Name: "orders"}, monitor.OtherLock{Type: "relation", Name: "t2"}
	since := s.TakenAt.Add(-time.Second)
	wait := func(lock monitor.OtherLock, pid int32, mode string, blocker monitor.Blocker) {
		s.OtherWaits = append(s.OtherWaits, monitor.OtherWait{Lock: lock, Waiter: monitor.Waiter{Mode: mode, WaitingSince: &since,
			Session: monitor.Session{PID: pid}, BlockedBy: []monitor.Blocker{blocker}}})
	}
	flyway := monitor.Blocker{PID: 1, Kind: "hard", Mode: "AccessExclusiveLock"}
	idx := monitor.Blocker{PID: 2, Kind: "hard", Mode: "ShareRowExclusiveLock"}
	wait(orders, 11, "AccessShareLock", flyway)
	wait(orders, 12, "AccessShareLock", flyway)
	wait(t2, 13, "RowExclusiveLock", idx)
	wait(t2, 14, "ShareUpdateExclusiveLock", monitor.Blocker{GID: "order 7", Kind: "hard", Mode: "RowExclusiveLock"})
	wait(t2, 15, "RowExclusiveLock", monitor.Blocker{PID: 14, Kind: "soft"})
	s.OtherSessions = []monitor.Session{{PID: 1, Application: "flyway"}, {PID: 2, Application: "idx"}, {GID: "order 7"}, {PID: 3}, {PID: 13}}
	table := Table(s, Filter{}, Server{}, 100)
	for _, want := range []string{
		"1 flyway         holds AccExcl   relation orders",
		"├─ 11             1.0s AccShare  relation orders",
		"2 idx            holds ShRowExcl relation t2",
		"└─ 14             1.0s ShUpdExcl relation t2",
		"   └─ ~15         1.0s RowExcl   relation t2",
	} {
		if !slices.Contains(table, want) {
			t.Errorf("the text does not have the line %q:\n%s", want, strings.Join(table, "\n"))
		}
	}
	c, err := s.Target(monitor.SessionID{PID: 2})
	must.Succeed(t, err)
	preview := strings.Join(Preview(s, c, "terminate", 100), "\n")
	if want := "relation t2 (ShRowExcl), wanted RowExcl: 13 waits for 1.0s: "; !strings.Contains(preview, want) {
		t.Errorf("the preview does not have %q:\n%s", want, preview)
	}
	c, err = s.Target(monitor.SessionID{PID: 13})
	must.Succeed(t, err)
	preview = strings.Join(Preview(s, c, "terminate", 100), "\n")
	if want := "It waits for relation t2 (RowExcl), blocked by 2."; !strings.Contains(preview, want) {
		t.Errorf("the preview does not have %q:\n%s", want, preview)
	}
}
