package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

type sessionSet map[monitor.SessionID]bool

// keepConnected copies to shown those waits of all for other locks that the filter shows or that are connected with them or with
// the holders and waiters of the shown locks, directly or through others, and the sessions that block them.
func (f Filter) keepConnected(shown, all *monitor.Snapshot) {
	before, behind := sessionSet{}, sessionSet{}
	for i := range shown.Locks {
		for _, holder := range shown.Locks[i].Holders {
			before[holder.ID()], behind[holder.ID()] = true, true
		}
		for _, waiter := range shown.Locks[i].Waiters {
			before[waiter.ID()], behind[waiter.ID()] = true, true
		}
	}
	for i := range all.OtherWaits {
		if wait := &all.OtherWaits[i]; f.ShowsOther(wait) {
			before[wait.ID()], behind[wait.ID()] = true, true
		}
	}
	waits := slices.Collect(all.Waits())
	for known := -1; known != len(before)+len(behind); {
		known = len(before) + len(behind)
		for _, wait := range waits {
			for _, blocker := range wait.BlockedBy {
				if before[wait.ID()] {
					before[blocker.ID()] = true
				}
				if behind[blocker.ID()] {
					behind[wait.ID()] = true
				}
			}
		}
	}
	named := sessionSet{}
	shown.OtherWaits = slices.DeleteFunc(slices.Clone(all.OtherWaits), func(wait monitor.OtherWait) bool {
		keep := before[wait.ID()] || behind[wait.ID()]
		if keep {
			named[wait.ID()] = true
			for _, blocker := range wait.BlockedBy {
				named[blocker.ID()] = true
			}
		}
		return !keep
	})
	shown.OtherSessions = slices.DeleteFunc(slices.Clone(all.OtherSessions), func(session monitor.Session) bool {
		return !named[session.ID()]
	})
}
