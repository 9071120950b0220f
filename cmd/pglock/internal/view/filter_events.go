package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/monitor/journal"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Events returns the events to be shown, of all that happened between two snapshots: those about a lock in the filter's keys
// and databases in which a session of its users and applications has a part, deadlocks through such a lock, and the ends of
// sessions that are such and, if there are keys, that one of these events is about. Gaps concern all.
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

// showsEvent notes the sessions that an event about a lock is about, whose ends come after it.
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

func (f Filter) showsParty(p journal.Party) bool { return f.showsSession(p.User, p.Application) }
