package view

import (
	"fmt"

	"github.com/pglock-toolkit/pglock/monitor"
)

// parties counts holders and waiters.
func parties(s *monitor.Snapshot) (holders, waiters int) {
	for _, lock := range s.Locks {
		holders, waiters = holders+len(lock.Holders), waiters+len(lock.Waiters)
	}
	return holders, waiters
}

// counts describes the numbers of locks, holders and waiters.
func counts(s *monitor.Snapshot) string {
	holders, waiters := parties(s)
	text := fmt.Sprintf("%s, %s, %s", count(len(s.Locks), "key"), count(holders, "holder"), count(waiters, "waiter"))
	if others := OtherWaiters(s); others > 0 {
		text += fmt.Sprintf(", %d waiting for other locks", others)
	}
	return text
}

// OtherWaiters counts the sessions that wait for locks that are not advisory, each once.
func OtherWaiters(s *monitor.Snapshot) int {
	waiters := map[monitor.SessionID]bool{}
	for i := range s.OtherWaits {
		waiters[s.OtherWaits[i].ID()] = true
	}
	return len(waiters)
}
