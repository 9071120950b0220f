package view

import (
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The events are about two keys with different sessions, a deadlock through one of them, and a gap.
func TestTheFilterAppliesToEvents(t *testing.T) {
	t.Parallel()
	party := func(pid int32, application string) journal.Party {
		return journal.Party{PID: pid, User: "app", Application: application}
	}
	about := func(kind journal.Kind, number int64, database string, session journal.Party, from ...journal.Party) journal.Event {
		return journal.Event{Kind: kind, Objsubid: 1, Space: "bigint", Number: number, Database: database,
			Session: &session, From: from}
	}
	ended := func(database string, session journal.Party) journal.Event {
		return journal.Event{Kind: journal.SessionEnded, Database: database, Session: &session}
	}
	events := []journal.Event{
		{Kind: journal.Gap}, // 0
		about(journal.WaitBegan, 42, "shop", party(1, "orders")),                  // 1
		about(journal.PassedOn, 42, "shop", party(1, "orders"), party(2, "cron")), // 2
		about(journal.Released, 43, "wiki", party(3, "bot (pglock 0123abcd)")),    // 3
		ended("shop", party(2, "cron")),                                           // 4
		ended("wiki", party(3, "bot (pglock 0123abcd)")),                          // 5
		{Kind: journal.Deadlock, Steps: []monitor.Step{ // 6
			{Key: "@9", Database: "shop"}, {Key: "@43", Database: "wiki"}}},
	}
	for name, test := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all":           {Filter{}, []int{0, 1, 2, 3, 4, 5, 6}},
		"a key":         {Filter{Keys: []pglock.Key{pglock.Int64Key(42)}}, []int{0, 1, 2, 4}},
		"another key":   {Filter{Keys: []pglock.Key{pglock.Int64Key(43)}}, []int{0, 3, 5, 6}},
		"this database": {Filter{Here: true}, []int{0, 3, 5, 6}},
	} {
		var got []int
		for _, e := range test.filter.Events("wiki", events) {
			got = append(got, slices.IndexFunc(events, func(other journal.Event) bool {
				return other.Kind == e.Kind && other.Session == e.Session
			}))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: events %v, want %v", name, got, test.want)
		}
	}
}
