package journal

import (
	"slices"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

func processParty(p monitor.RowProcess) Party {
	return Party{PID: p.PID, User: p.User, Application: p.Application, Holder: p.Holder, Host: p.Host, Since: p.Since}
}

// rowEvents returns the events about locks in rows that have waiters, or had some within [Linger].
func (s step) rowEvents(now *monitor.Snapshot) (events []Event) {
	rows := make(map[pglock.KeyID]*monitor.RowLock, len(now.RowLocks))
	for i := range now.RowLocks {
		lock := &now.RowLocks[i]
		rows[lock.ID()] = lock
		if _, known := s.rowsSeen[lock.ID()]; len(lock.Waiters) > 0 && (known || len(s.rowsSeen) < maxKeys) {
			s.rowsSeen[lock.ID()] = s.at
		}
	}
	for _, id := range s.reportedRows() {
		if before, after := s.rows[id], rows[id]; before != nil || after != nil {
			r := rowStep{s, now.Database, before, after}
			events = append(events, r.events()...)
		}
	}
	s.Journal.rows = rows
	return events
}

// reportedRows returns the locks in rows whose events are reported, sorted, and forgets those that have had no waiters for
// long.
func (s step) reportedRows() (ids []pglock.KeyID) {
	for id, last := range s.rowsSeen {
		if age := s.at.Sub(last); age > Linger || age < -Linger {
			delete(s.rowsSeen, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, pglock.KeyID.Compare)
	return ids
}

// rowStep is what happened to one lock in a row. before and after are nil if it was free.
type rowStep struct {
	step
	database      string
	before, after *monitor.RowLock
}

func (r rowStep) events() []Event {
	was, is := rowHolds(r.before), rowHolds(r.after)
	waited, waits := rowWaiters(r.before), rowWaiters(r.after)
	var lost []Party
	for _, h := range rowHolderList(r.before) {
		if is[h.Generation] == nil {
			lost = append(lost, processParty(h.RowProcess))
		}
	}
	events, passed := []Event{}, false
	for _, h := range rowHolderList(r.after) {
		if was[h.Generation] != nil || r.last.IsZero() {
			continue
		}
		e := r.event(Acquired, h.RowProcess, h.Mode)
		if w := waited[h.Holder]; w != nil {
			e = r.withWait(e, &w.WaitingSince)
		}
		if len(lost) > 0 {
			e.Kind, e.From, passed = PassedOn, lost[:min(len(lost), maxParties)], true
		}
		events = append(events, e)
	}
	if !passed {
		for _, h := range rowHolderList(r.before) {
			if is[h.Generation] == nil {
				e := r.event(Released, h.RowProcess, h.Mode)
				since := h.HeldSince
				e.SeenSince = &since
				events = append(events, e)
			}
		}
	}
	return append(append(events, r.waitsEnded(waits)...), r.waitsBegan(waited)...)
}

func (r rowStep) waitsEnded(waits map[string]*monitor.RowWaiter) (events []Event) {
	if r.before == nil {
		return nil
	}
	held := map[string]bool{}
	for _, h := range rowHolderList(r.after) {
		held[h.Holder] = true
	}
	for i := range r.before.Waiters {
		if w := &r.before.Waiters[i]; waits[w.Holder] == nil && !held[w.Holder] {
			events = append(events, r.withWait(r.event(WaitEnded, w.RowProcess, w.Mode), &w.WaitingSince))
		}
	}
	return events
}

func (r rowStep) waitsBegan(waited map[string]*monitor.RowWaiter) (events []Event) {
	if r.after == nil {
		return nil
	}
	for i := range r.after.Waiters {
		w := &r.after.Waiters[i]
		if waited[w.Holder] != nil {
			continue
		}
		e := r.event(WaitBegan, w.RowProcess, w.Mode)
		e.WaitingSince = &w.WaitingSince
		for _, h := range r.after.Holders {
			if slices.Contains(w.BlockedBy, h.Holder) && len(e.BlockedBy) < maxParties {
				e.BlockedBy = append(e.BlockedBy, processParty(h.RowProcess))
			}
		}
		events = append(events, e)
	}
	return events
}

// event returns an event about the lock.
func (r rowStep) event(kind Kind, p monitor.RowProcess, mode monitor.Mode) Event {
	lock := r.after
	if lock == nil {
		lock = r.before
	}
	e := r.step.event(kind, r.at).withSession(processParty(p))
	e.LockType, e.Key, e.Space, e.Number, e.Database, e.Mode = typeRow, lock.Key, lock.Space, lock.Number, r.database, mode
	if e.Objsubid = 1; lock.Space == monitor.SpacePair {
		e.Objsubid = 2
	}
	return e
}

func rowHolderList(lock *monitor.RowLock) []monitor.RowHolder {
	if lock == nil {
		return nil
	}
	return lock.Holders
}

// rowHolds returns the holders by generation, which each grant has of its own.
func rowHolds(lock *monitor.RowLock) map[int64]*monitor.RowHolder {
	all := map[int64]*monitor.RowHolder{}
	for i := range rowHolderList(lock) {
		all[lock.Holders[i].Generation] = &lock.Holders[i]
	}
	return all
}

// rowWaiters returns the waiters by process.
func rowWaiters(lock *monitor.RowLock) map[string]*monitor.RowWaiter {
	all := map[string]*monitor.RowWaiter{}
	if lock == nil {
		return all
	}
	for i := range lock.Waiters {
		all[lock.Waiters[i].Holder] = &lock.Waiters[i]
	}
	return all
}
