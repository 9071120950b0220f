package web

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// withoutOthers returns the snapshot as it would be without [monitor.WithAllWaits]: waits that nothing connects with an
// advisory lock are only counted.
func withoutOthers(s *monitor.Snapshot) *monitor.Snapshot {
	connected, waiting := connected(s), map[monitor.SessionID]bool{}
	bare := *s
	bare.OtherWaits = slices.DeleteFunc(slices.Clone(s.OtherWaits), func(w monitor.OtherWait) bool {
		if !connected[w.ID()] {
			waiting[w.ID()] = true
		}
		return !connected[w.ID()]
	})
	bare.OtherSessions = slices.DeleteFunc(slices.Clone(s.OtherSessions), func(o monitor.Session) bool { return !connected[o.ID()] })
	bare.WaitsElsewhere += len(waiting)
	return &bare
}

// connected returns the sessions that have advisory locks or wait for one, and those that waits connect with them.
func connected(s *monitor.Snapshot) map[monitor.SessionID]bool {
	found := map[monitor.SessionID]bool{}
	for i := range s.Locks {
		for k := range s.Locks[i].Holders {
			found[s.Locks[i].Holders[k].ID()] = true
		}
		for k := range s.Locks[i].Waiters {
			found[s.Locks[i].Waiters[k].ID()] = true
		}
	}
	for before := -1; before < len(found); {
		before = len(found)
		for i := range s.OtherWaits {
			linked := []monitor.SessionID{s.OtherWaits[i].ID()}
			for _, blocker := range s.OtherWaits[i].BlockedBy {
				linked = append(linked, blocker.ID())
			}
			if slices.ContainsFunc(linked, func(id monitor.SessionID) bool { return found[id] }) {
				for _, id := range linked {
					found[id] = true
				}
			}
		}
	}
	return found
}
