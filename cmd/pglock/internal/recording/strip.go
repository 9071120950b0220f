package recording

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// withoutQueries returns a snapshot without the texts of statements.
func withoutQueries(s *monitor.Snapshot) *monitor.Snapshot {
	bare := *s
	bare.Locks = slices.Clone(s.Locks)
	for i := range bare.Locks {
		lock := &bare.Locks[i]
		lock.Holders, lock.Waiters = slices.Clone(lock.Holders), slices.Clone(lock.Waiters)
		for k := range lock.Holders {
			withoutQuery(&lock.Holders[k].Session)
		}
		for k := range lock.Waiters {
			withoutQuery(&lock.Waiters[k].Session)
		}
	}
	bare.OtherWaits = slices.Clone(s.OtherWaits)
	for i := range bare.OtherWaits {
		withoutQuery(&bare.OtherWaits[i].Session)
	}
	bare.OtherSessions = slices.Clone(s.OtherSessions)
	for i := range bare.OtherSessions {
		withoutQuery(&bare.OtherSessions[i])
	}
	bare.Capacity.Top = slices.Clone(s.Capacity.Top)
	for i := range bare.Capacity.Top {
		withoutQuery(&bare.Capacity.Top[i].Session)
	}
	return &bare
}

// withoutQuery removes a session's statement, and marks it as hidden.
func withoutQuery(s *monitor.Session) {
	if s.Query == "" {
		return
	}
	s.Query = ""
	if !slices.Contains(s.Hidden, "query") {
		s.Hidden = append(slices.Clone(s.Hidden), "query")
	}
}
