package monitor

import (
	"cmp"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// newSnapshot makes sense of what the server told.
func newSnapshot(t tables, n names) *Snapshot {
	grouped := group(t, n)
	connect(grouped, t.blockers)
	return &Snapshot{
		Version:         FormatVersion,
		TakenAt:         t.server.TakenAt.Time.UTC(),
		ServerVersion:   t.server.Version,
		Database:        t.server.Database,
		Role:            t.server.Role,
		NamesMissing:    n.missing,
		DetailsHidden:   whyHidden(t),
		BlockersMissing: t.noBlockers,
		Capacity:        Capacity{Top: []SessionLoad{}},
		Cycles:          []Cycle{},
		Locks:           inOrder(grouped, t.server.Database),
	}
}

// group brings the rows of each lock together.
func group(t tables, n names) map[identity]*Lock {
	grouped, found := map[identity]*Lock{}, sessions(t)
	for _, row := range t.locks {
		id := identify(row.Database, row.Classid, row.Objid, row.Objsubid)
		lock := grouped[id]
		if lock == nil {
			lock = newLock(id, row.DatabaseName.String, n.of(id, t.server))
			grouped[id] = lock
		}
		lock.add(row, lockSession(row, found))
	}
	return grouped
}

func newLock(id identity, database string, registered []string) *Lock {
	class, object := id.halves()
	return &Lock{
		Key:         id.text(registered),
		Names:       append([]string{}, registered...),
		Guesses:     []Guess{},
		Space:       id.space(),
		Objsubid:    id.objsubid,
		Number:      id.number,
		Class:       class,
		Object:      object,
		DatabaseOID: id.database,
		Database:    database,
		Holders:     []Holder{},
		Waiters:     []Waiter{},
	}
}

func (l *Lock) add(row monitordb.LocksRow, session Session) {
	mode := modeOf(row.Mode.String)
	if row.Granted.Bool {
		l.Holders = append(l.Holders, Holder{Session: session, Mode: mode})
		return
	}
	since := instant(row.WaitingSince)
	l.Waiters = append(l.Waiters, Waiter{Session: session, Mode: mode, WaitingSince: since, BlockedBy: []Blocker{}})
}

// connect adds the edges of the wait graph. They were read a moment after the locks: a session that waits for another
// lock by then is a different waiter, and the snapshot does not have it.
func connect(grouped map[identity]*Lock, rows []monitordb.BlockersRow) {
	type waiting struct {
		lock identity
		pid  int32
	}
	pids := map[waiting][]int32{}
	for _, row := range rows {
		id := identify(row.Database, row.Classid, row.Objid, row.Objsubid)
		pids[waiting{id, row.Pid.Int32}] = row.Blockers
	}
	for id, lock := range grouped {
		for i := range lock.Waiters {
			waiter := &lock.Waiters[i]
			waiter.BlockedBy = blockers(*waiter, lock.Holders, pids[waiting{id, waiter.PID}])
		}
	}
}

// inOrder sorts the locks and everybody in them, so that an unchanged server gives an unchanged snapshot.
func inOrder(grouped map[identity]*Lock, connected string) []Lock {
	ordered := make([]Lock, 0, len(grouped))
	for _, lock := range grouped {
		slices.SortFunc(lock.Holders, compareHolders)
		slices.SortFunc(lock.Waiters, compareWaiters)
		ordered = append(ordered, *lock)
	}
	slices.SortFunc(ordered, func(a, b Lock) int {
		return cmp.Or(
			compareBool(b.Database == connected, a.Database == connected),
			cmp.Compare(a.Database, b.Database),
			cmp.Compare(a.DatabaseOID, b.DatabaseOID),
			a.ID().Compare(b.ID()),
		)
	})
	return ordered
}

func compareHolders(a, b Holder) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID), cmp.Compare(a.Mode, b.Mode))
}

// compareWaiters puts those who have waited longest first; the server has not yet set the time of those just come.
func compareWaiters(a, b Waiter) int {
	if a.WaitingSince == nil || b.WaitingSince == nil {
		return cmp.Or(compareBool(a.WaitingSince == nil, b.WaitingSince == nil), cmp.Compare(a.PID, b.PID))
	}
	return cmp.Or(a.WaitingSince.Compare(*b.WaitingSince), cmp.Compare(a.PID, b.PID))
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
