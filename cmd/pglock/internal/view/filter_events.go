package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Events returns those of the events between two snapshots that the filter shows: events about a lock of its keys and
// databases that involve a session of its users and applications, deadlocks through such a lock, and the ends of such
// sessions. If the filter has keys, the end of a session is shown only if another shown event involves it. Gaps are
// always shown.
func (f Filter) Events(events []journal.Event) []journal.Event {
	if !f.narrows() {
		return events
	}
	concerned := map[int32]bool{}
	var shown []journal.Event
	for _, e := range events {
		if f.showsEvent(e, concerned) {
			shown = append(shown, e)
		}
	}
	return shown
}

// showsEvent reports whether the filter shows an event. It notes the sessions of a shown event in concerned, for the
// events about their ends, which come later.
func (f Filter) showsEvent(e journal.Event, concerned map[int32]bool) bool {
	switch e.Kind {
	case journal.Gap:
		return true
	case journal.Deadlock, journal.DeadlockOver:
		return slices.ContainsFunc(e.Steps, f.showsStep)
	case journal.SessionEnded:
		return f.inDatabases(e.Database) && f.showsParty(*e.Session) && (len(f.Keys) == 0 || concerned[e.Session.PID])
	}
	parties := slices.Concat(e.From, e.BlockedBy)
	if e.Session != nil {
		parties = append(parties, *e.Session)
	}
	lock := monitor.Lock{Objsubid: e.Objsubid, Number: e.Number, Space: e.Space, Database: e.Database}
	if !(Filter{Keys: f.Keys, Databases: f.Databases}).Shows(lock) || !slices.ContainsFunc(parties, f.showsParty) {
		return false
	}
	for _, p := range parties {
		concerned[p.PID] = true
	}
	return true
}

func (f Filter) showsStep(step monitor.Step) bool {
	key, err := pglock.ParseKey(step.Key)
	return f.inDatabases(step.Database) && (len(f.Keys) == 0 || err == nil &&
		slices.ContainsFunc(f.Keys, func(k pglock.Key) bool { return k.Equal(key) }))
}

func (f Filter) inDatabases(database string) bool {
	return len(f.Databases) == 0 || slices.Contains(f.Databases, database)
}

func (f Filter) showsParty(p journal.Party) bool { return f.showsSession(p.Application) }
