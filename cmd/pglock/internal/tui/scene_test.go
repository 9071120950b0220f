package tui

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// scene makes a snapshot of sessions that are named after their process IDs.
type scene struct{ monitor.Snapshot }

func (s *scene) session(pid int32) monitor.Session { return session(pid, fmt.Sprintf("s%d", pid)) }

// lock adds an advisory lock that some sessions hold.
func (s *scene) lock(number int64, holders ...int32) *monitor.Lock {
	l := lock(pglock.Int64Key(number))
	for _, pid := range holders {
		l.Holders = append(l.Holders, holds(s.session(pid), "exclusive"))
	}
	s.Locks = append(s.Locks, l)
	return &s.Locks[len(s.Locks)-1]
}

// wait adds a waiter for an advisory lock that the scene has.
func (s *scene) wait(number int64, pid int32, seconds time.Duration, blockers ...monitor.Blocker) {
	for i := range s.Locks {
		if l := &s.Locks[i]; l.Number == number {
			l.Waiters = append(l.Waiters, waits(s.session(pid), "exclusive", seconds*time.Second, blockers...))
		}
	}
}

// pileUp returns a snapshot of n sessions that wait for the key of one, each behind all that came before it, and of another
// root with a waiter.
func pileUp(n int) *monitor.Snapshot {
	s := &scene{monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop", Role: "dba"}}
	s.lock(1, 10)
	for i := range n {
		blockers := []monitor.Blocker{hardBlocker(10)}
		for ahead := range i {
			blockers = append(blockers, softBlocker(int32(1000+ahead)))
		}
		s.wait(1, int32(1000+i), time.Duration(n-i), blockers...)
	}
	s.lock(2, 20)
	s.wait(2, 21, 3, hardBlocker(20))
	return &s.Snapshot
}
