package view

import (
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// waited returns a snapshot of one lock for which sessions have waited for the given times.
func waited(times ...time.Duration) *monitor.Snapshot {
	lock := monitor.Lock{Key: "@5"}
	for _, lasted := range times {
		lock.Waiters = append(lock.Waiters, monitor.Waiter{WaitingSince: ago(lasted)})
	}
	return &monitor.Snapshot{TakenAt: now, Locks: []monitor.Lock{lock}}
}
