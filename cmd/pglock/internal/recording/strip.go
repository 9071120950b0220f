package recording

import (
	"net/url"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/sqlcomment"
	"github.com/pglock-toolkit/pglock/monitor"
)

// KeptTags are the sqlcommenter tags that are kept if statements are not recorded. They say which code runs, but not with
// which data.
var KeptTags = []string{"action", "application", "controller", "db_driver", "framework", "job", "route", "traceparent"}

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

// withoutQuery reduces a session's statement to its tags and whether it takes a lock, and marks it as hidden.
func withoutQuery(s *monitor.Session) {
	if s.Query == "" {
		return
	}
	s.Query = tagsOnly(s.Query)
	if !slices.Contains(s.Hidden, "query") {
		s.Hidden = append(slices.Clone(s.Hidden), "query")
	}
}

// lockingStatement replaces a statement that calls a function of advisory locks, so that a journal of the recording knows
// which tags belong to the code that took a lock.
const lockingStatement = "… advisory … "

func tagsOnly(query string) string {
	if !strings.Contains(query, "/*") {
		return ""
	}
	tags := sqlcomment.Read(query)
	var kept []string
	for _, key := range KeptTags {
		if value, ok := tags[key]; ok {
			kept = append(kept, key+"='"+strings.ReplaceAll(url.PathEscape(value), "'", `\'`)+"'")
		}
	}
	if len(kept) == 0 {
		return ""
	}
	comment := "/*" + strings.Join(kept, ",") + "*/"
	if strings.Contains(strings.ToLower(query), "advisory") {
		return lockingStatement + comment
	}
	return comment
}
