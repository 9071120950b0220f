package journal

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
)

// otherID identifies a wait for a lock that is not an advisory one.
type otherID struct {
	session        sessionID
	lock, database string
}

func otherIDOf(w *monitor.OtherWait) otherID {
	return otherID{sessionIDOf(&w.Session), w.Lock.String(), w.Lock.Database}
}

// otherEvents returns the events about waits for locks that are not advisory ones, as far as the snapshots have them. Who
// holds such a lock is seen only while others wait for it, so there are no further events.
func (s step) otherEvents(now *monitor.Snapshot) []Event {
	waits := make(map[otherID]*monitor.OtherWait, len(now.OtherWaits))
	var events []Event
	for i := range now.OtherWaits {
		w := &now.OtherWaits[i]
		id := otherIDOf(w)
		if waits[id] = w; s.others[id] != nil {
			continue
		}
		e := s.otherEvent(WaitBegan, w)
		e.WaitingSince, e.BlockedBy = w.WaitingSince, s.otherBlockers(w)
		events = append(events, e)
	}
	var ended []Event
	for id, w := range s.others {
		if waits[id] == nil {
			e := s.withWait(s.otherEvent(WaitEnded, w), w.WaitingSince)
			e.Reason = s.reason(&w.Session)
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Session.PID, b.Session.PID), cmp.Compare(a.Key, b.Key))
	})
	s.others = waits
	return append(events, ended...)
}

func (s step) otherEvent(kind Kind, w *monitor.OtherWait) Event {
	e := s.event(kind, s.at).withSession(party(w.Session))
	e.LockType, e.Key, e.Database, e.DatabaseOID, e.Mode = w.Lock.Type, w.Lock.String(), w.Lock.Database, w.Lock.DatabaseOID, w.Mode
	e.Code = codeOf(&w.Session)
	if e.Database == "" {
		e.Database = w.Session.Database // a transaction is in no database
	}
	return e
}

func (s step) otherBlockers(w *monitor.OtherWait) []Party {
	all := []Party{}
	for _, b := range s.tree().Blockers(w.Waiter)[:min(len(w.BlockedBy), maxParties)] {
		all = append(all, party(*s.tree().Node(b.ID()).Session))
	}
	return all
}
