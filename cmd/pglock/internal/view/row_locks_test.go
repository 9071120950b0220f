package view

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// inRow returns a lock in a row for which processes have waited for the given times.
func inRow(key string, times ...time.Duration) monitor.RowLock {
	lock := monitor.RowLock{Key: key}
	for _, lasted := range times {
		lock.Waiters = append(lock.Waiters, monitor.RowWaiter{WaitingSince: now.Add(-lasted), RowProcess: monitor.RowProcess{Holder: "0123456789abcdef"}})
	}
	return lock
}

func TestAScreenKeepsTheLongestWaitsOfSessionsAndRows(t *testing.T) {
	s := waited(time.Minute)
	s.Locks = append(s.Locks, monitor.Lock{Key: "@6"}, monitor.Lock{Key: "@7"})
	s.RowLocks = []monitor.RowLock{inRow("@8"), inRow("@9", time.Hour), inRow("@10", time.Second)}
	text := strings.Join(OneScreen(s, Filter{}, Server{Target: "server"}, 80, 16), "\n")
	for _, want := range []string{"@5", "\n@9\n", "\n@10\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	for _, free := range []string{"@6", "@7", "\n@8\n"} {
		if strings.Contains(text, free) {
			t.Errorf("%q is shown:\n%s", free, text)
		}
	}
	if !strings.Contains(text, "… 3 more keys") {
		t.Errorf("what does not fit is not counted:\n%s", text)
	}
}

func TestAWaitForALockInARowCountsAsAnyOther(t *testing.T) {
	sessions, rows := waited(time.Minute), &monitor.Snapshot{TakenAt: now, RowLocks: []monitor.RowLock{inRow("@9", time.Hour)}}
	rows.Locks = sessions.Locks
	limits := Limits{Fail: limit(2 * time.Minute)}
	if got := Judge(rows, Filter{}, limits, ""); got.Verdict != Critical || !strings.Contains(got.Text, "in a row of database") {
		t.Errorf("%v %s", got.Verdict, got.Text)
	}
	if got := Judge(sessions, Filter{}, limits, ""); got.Verdict != OK {
		t.Errorf("%v %s", got.Verdict, got.Text)
	}
}
