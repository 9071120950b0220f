package view

import (
	"slices"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Events returns those of the events between two snapshots that are about a shown lock or a deadlock through one, and the ends
// of sessions that another shown event involves. Gaps are always shown. connected is the database of the snapshots.
func (f Filter) Events(connected string, events []journal.Event) (shown []journal.Event) {
	if !f.narrows() {
		return events
	}
	concerned := map[int32]bool{}
	for _, e := range events {
		if f.showsEvent(connected, e, concerned) {
			shown = append(shown, e)
		}
	}
	return shown
}

// showsEvent notes the sessions of a shown event in concerned, for the events about their ends, which come later.
func (f Filter) showsEvent(connected string, e journal.Event, concerned map[int32]bool) bool {
	switch e.Kind {
	case journal.Gap:
		return true
	case journal.Deadlock, journal.DeadlockOver:
		return slices.ContainsFunc(e.Steps, func(step monitor.Step) bool { return f.showsStep(connected, step) })
	case journal.SessionEnded:
		return concerned[e.Session.PID]
	}
	lock := monitor.Lock{Objsubid: e.Objsubid, Number: e.Number, Space: e.Space, Database: e.Database}
	if !f.shows(connected, &lock) {
		return false
	}
	for _, p := range slices.Concat(e.From, e.BlockedBy, []journal.Party{*e.Session}) {
		concerned[p.PID] = true
	}
	return true
}
