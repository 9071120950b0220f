package monitor

import (
	"cmp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Fields of a process that uses locks in rows that can be hidden, by their names in JSON.
var (
	rowHostFields    = []string{"client"}
	rowProcessFields = []string{"user", "application", "session_since", "client"}
)

// rowLock is a row of pglock.row_locks, as the statement RowLocks returns it in JSON.
type rowLock struct {
	Space       int16   `json:"space"`
	Number      int64   `json:"number"`
	Granted     bool    `json:"granted"`
	Since       int64   `json:"since"`
	Generation  int64   `json:"generation"` // of a waiter its place: who has a smaller one is served earlier
	Mode        string  `json:"mode"`
	Holder      string  `json:"holder"`
	Role        *string `json:"role"`
	Application *string `json:"application"`
	Host        *string `json:"host"`
	PID         *int32  `json:"pid"`
	Process     *int64  `json:"process_since"`
	Expires     *int64  `json:"expires"`
	Name        *string `json:"name"`

	endedBy string // who may end the process, if the role may not
}

func (r rowLock) key() driver.KeyID {
	return driver.KeyID{Space: driver.Space(r.Space), Number: r.Number}
}

func (r rowLock) process(database string) Session {
	s := Session{
		User: value(r.Role), Database: database, Application: value(r.Application), Since: microseconds(r.Process), Hidden: []string{},
		SignalledBy: r.endedBy, Lease: &Lease{Holder: r.Holder, Host: value(r.Host), PID: value(r.PID), Expires: microseconds(r.Expires)},
	}
	switch {
	case r.Role == nil:
		s.Hidden = slices.Clone(rowProcessFields)
	case r.Host == nil:
		s.Hidden = slices.Clone(rowHostFields)
	}
	return s
}

func microseconds(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := time.UnixMicro(*us).UTC()
	return &t
}

// rowLocks returns the locks in rows, sorted by space and number. A lock that only says what another one is for is not among
// them.
func rowLocks(t tables) []Lock {
	byID, said, at := map[identity]*Lock{}, marks{}, t.server.TakenAt.Time
	slices.SortFunc(t.rowLocks, func(a, b rowLock) int { return cmp.Compare(a.Generation, b.Generation) })
	for _, row := range t.rowLocks {
		id := identity{t.rows[0].ConnectedOid.Uint32, row.Space, row.Number}
		if !t.rows[0].MayEndHolders {
			row.endedBy = "a role with EXECUTE on pglock.lease_terminate(text)"
		}
		if isMark(id) {
			if row.Granted {
				said[id] = append(said[id], row.process(t.server.Database))
			}
			continue
		}
		if byID[id] == nil {
			byID[id] = newLock(id, t.server.Database)
			byID[id].InRow = true
			if name := value(row.Name); name != "" {
				byID[id].Names = []string{name}
				byID[id].Key = id.text(byID[id].Names)
			}
		}
		byID[id].addRowLock(row, at)
	}
	for id, lock := range byID {
		lock.recognise(id, said)
		lock.connectRow(at)
		if len(lock.Holders)+len(lock.Waiters) == 0 {
			delete(byID, id)
		}
	}
	foldSemaphores(byID, t)
	all := []Lock{}
	for _, lock := range byID {
		all = append(all, *lock)
	}
	slices.SortFunc(all, func(a, b Lock) int { return a.ID().Compare(b.ID()) })
	return all
}

func (l *Lock) addRowLock(row rowLock, at time.Time) {
	mode := modeExclusive
	if row.Mode == "shared" {
		mode = modeShared
	}
	since, process := microseconds(&row.Since), row.process(l.Database)
	switch {
	case row.Granted:
		l.Holders = append(l.Holders, Holder{Mode: mode, Generation: row.Generation, SeenSince: since, Session: process})
	case !process.Lease.over(at):
		l.Waiters = append(l.Waiters, Waiter{Mode: mode, WaitingSince: since, Session: process, BlockedBy: []Blocker{}})
	}
}

// connectRow adds the edges between the waiters and the processes that are in their way.
func (l *Lock) connectRow(at time.Time) {
	for i := range l.Waiters {
		w := &l.Waiters[i]
		for _, h := range l.Holders {
			if h.ID() != w.ID() && conflict(h.Mode, w.Mode) && !h.Lease.over(at) && len(w.BlockedBy) < maxBlockers {
				w.BlockedBy = append(w.BlockedBy, Blocker{Holder: h.Lease.Holder, Kind: blockHard})
			}
		}
		for _, ahead := range slices.Backward(l.Waiters[:i]) {
			if ahead.ID() == w.ID() || !conflict(ahead.Mode, w.Mode) {
				continue
			}
			if w.Ahead++; len(w.BlockedBy) == 0 {
				w.BlockedBy = append(w.BlockedBy, Blocker{Holder: ahead.Lease.Holder, Kind: blockSoft})
			}
		}
	}
}
