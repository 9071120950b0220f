package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// inRow returns a lock in a row for which processes have waited for the given times.
func inRow(key string, times ...time.Duration) monitor.Lock {
	lock := monitor.Lock{InRow: true, Key: key}
	for _, lasted := range times {
		lock.Waiters = append(lock.Waiters, monitor.Waiter{WaitingSince: ago(lasted), Session: monitor.Session{Lease: &monitor.Lease{Holder: "0123456789abcdef"}}})
	}
	return lock
}

func TestAScreenKeepsTheLongestWaitsOfSessionsAndRows(t *testing.T) {
	s := waited(time.Minute)
	s.Locks = append(s.Locks, monitor.Lock{Key: "@6"}, monitor.Lock{Key: "@7"}, inRow("@8"), inRow("@9", time.Hour), inRow("@10", time.Second))
	text := strings.Join(OneScreen(s, Filter{}, Server{Target: "server"}, 80, 15), "\n")
	for _, want := range []string{"@5", "\n@9 (row)", "\n@10 (row)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	for _, free := range []string{"@6", "@7", "\n@8 (row)"} {
		if strings.Contains(text, free) {
			t.Errorf("%q is shown:\n%s", free, text)
		}
	}
	if !strings.Contains(text, "… 3 more keys") {
		t.Errorf("what does not fit is not counted:\n%s", text)
	}
}

func TestAWaitForALockInARowCountsAsAnyOther(t *testing.T) {
	sessions, rows := waited(time.Minute), waited(time.Minute)
	rows.Locks = append(rows.Locks, inRow("@9", time.Hour))
	limits := Limits{Fail: limit(2 * time.Minute)}
	if got := Judge(rows, Filter{}, limits, ""); got.Verdict != Critical || !strings.Contains(got.Text, "for @9 (row)") {
		t.Errorf("%v %s", got.Verdict, got.Text)
	}
	if got := Judge(sessions, Filter{}, limits, ""); got.Verdict != OK {
		t.Errorf("%v %s", got.Verdict, got.Text)
	}
}
