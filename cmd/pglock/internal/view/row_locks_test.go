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

func TestAWaitForALockInARowCountsAsAnyOther(t *testing.T) {
	sessions, rows := waited(time.Minute), waited(time.Minute)
	rows.Locks = append(rows.Locks, inRow("@9", time.Hour))
	limits := Limits{Fail: limit(2 * time.Minute)}
	if got, text := Status(rows, Filter{}, limits, ""); got != Critical || !strings.Contains(text, "for @9 (row)") {
		t.Error(text)
	}
	if got, text := Status(sessions, Filter{}, limits, ""); got != OK {
		t.Error(text)
	}
}
