package recording

import (
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Info is what a timeline shows of a snapshot.
type Info struct {
	// At is the server's clock.
	At time.Time
	// The number of waiters and of certain deadlocks in the snapshot, and its longest wait.
	Waiters   int
	Deadlocks int
	Longest   time.Duration
}

// infoOf counts all waits of a snapshot, for locks of any type, apart from those that belong to normal work.
func infoOf(s *monitor.Snapshot) Info {
	info := Info{At: s.TakenAt}
	note := func(since *time.Time) {
		info.Waiters++
		if since != nil {
			info.Longest = max(info.Longest, s.TakenAt.Sub(*since))
		}
	}
	for wait := range s.Waits() {
		if !wait.Expected {
			note(wait.WaitingSince)
		}
	}
	for _, cycle := range s.Cycles {
		if cycle.Certain {
			info.Deadlocks++
		}
	}
	return info
}
