package monitor

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// newSnapshot makes a snapshot from what the server reported.
func newSnapshot(t tables, o config) (*Snapshot, error) {
	found := sessions(t)
	grouped, advisory := group(t, found)
	all := newParties(t, found)
	connect(grouped, t.blockers, all)
	waits, err := otherWaits(t, all)
	if err != nil {
		return nil, err
	}
	setNames(grouped, t, o)
	recognisePrimitives(grouped, t, found)
	s := &Snapshot{
		Version:         FormatVersion,
		TakenAt:         t.server.TakenAt.Time.UTC(),
		ServerVersion:   t.server.Version,
		Server:          Server{Host: t.server.Host, Port: t.server.Port, InRecovery: t.server.InRecovery},
		Database:        t.server.Database,
		Role:            t.server.Role,
		NamesMissing:    cmp.Or(t.noNames, registryMissing(t)),
		DetailsHidden:   detailsHiddenText(t),
		BlockersMissing: t.noBlockers,
		Capacity:        capacity(t, found, advisory),
		Locks:           append(sortAll(grouped, t.server.Database), rowLocks(t)...),
		OtherWaits:      waits,
		WaitsElsewhere:  max(0, int(t.rows[0].OtherWaiters)-len(waitersOf(waits))),
		OtherSessions:   otherSessions(waits, all),
		RowLocksMissing: t.noRows,
		IdleRowsMissing: t.noHolders,
	}
	s.Cycles = cycles(s)
	return s, nil
}

// numberSize is how many bytes the number of a key has.
const numberSize = 8

// locks returns an iterator over the locks of all rows, with the row.
func (t tables) locks() iter.Seq2[identity, *monitordb.LocksRow] {
	return func(yield func(identity, *monitordb.LocksRow) bool) {
		for i := range t.rows {
			row := &t.rows[i]
			for rest := row.Numbers; len(rest) >= numberSize; rest = rest[numberSize:] {
				number := int64(binary.BigEndian.Uint64(rest))
				if !yield(identity{row.Database.Uint32, row.Objsubid.Int16, number}, row) {
					return
				}
			}
		}
	}
}

// group collects the holders and waiters of each lock, and counts the locks, those too that are none of the users'.
func group(t tables, found map[string]Session) (grouped map[identity]*Lock, all int) {
	entries := 0
	for i := range t.rows {
		entries += len(t.rows[i].Numbers) / numberSize
	}
	grouped, own := make(map[identity]*Lock, entries), map[identity]bool{}
	for id, row := range t.locks() {
		if isIdentityKey(id, row) || isMark(id) {
			own[id] = true
			continue
		}
		lock := grouped[id]
		if lock == nil {
			lock = newLock(id, row.Datname.String)
			grouped[id] = lock
		}
		lock.addRow(row, found[row.Owner])
	}
	return grouped, len(grouped) + len(own)
}

// isIdentityKey reports whether a lock is only the identity of the session that holds it. Sessions never wait for an
// identity.
func isIdentityKey(id identity, row *monitordb.LocksRow) bool {
	class, _ := id.halves()
	return id.space() == spacePair && class == lockkeys.IdentityClass && row.Granted.Bool
}

func newLock(id identity, database string) *Lock {
	class, object := id.halves()
	return &Lock{
		Key:         id.text(nil),
		Names:       []string{},
		Guesses:     []string{},
		Kind:        kindLock,
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

func (l *Lock) addRow(row *monitordb.LocksRow, session Session) {
	mode := modeOf(row.Mode.String)
	if row.Granted.Bool {
		l.Holders = append(l.Holders, Holder{Session: session, Mode: mode})
		return
	}
	l.Waiters = append(l.Waiters, Waiter{Session: session, Mode: mode, WaitingSince: instant(row.WaitingSince), BlockedBy: []Blocker{}})
}

// connect adds the edges of the wait graph. They were read a moment after the locks. A session that waited for another
// lock by then is a different waiter, which the snapshot does not have.
func connect(grouped map[identity]*Lock, rows []monitordb.BlockersRow, all parties) {
	type waiting struct {
		lock identity
		pid  int32
	}
	pids := map[waiting][]int32{}
	for _, row := range rows {
		if row.Target != "" {
			continue // not an advisory lock
		}
		id := identify(row.Database, row.Classid, row.Objid, row.Objsubid)
		pids[waiting{id, row.Pid}] = row.Blockers
	}
	for id, lock := range grouped {
		for i := range lock.Waiters {
			waiter := &lock.Waiters[i]
			waiter.BlockedBy, waiter.Ahead = all.blockers(*waiter, lock.Holders, pids[waiting{id, waiter.PID}])
		}
	}
}

// sortAll sorts the locks, their holders and waiters, so that an unchanged server gives an unchanged snapshot.
func sortAll(grouped map[identity]*Lock, connected string) []Lock {
	type placed struct {
		identity
		lock *Lock
	}
	ordered := make([]placed, 0, len(grouped))
	for id, lock := range grouped {
		slices.SortFunc(lock.Holders, compareHolders)
		slices.SortFunc(lock.Waiters, compareWaiters)
		ordered = append(ordered, placed{id, lock})
	}
	slices.SortFunc(ordered, func(a, b placed) int {
		if a.database == b.database {
			return a.key().Compare(b.key())
		}
		return cmp.Or(
			compareBool(b.lock.Database == connected, a.lock.Database == connected),
			cmp.Compare(a.lock.Database, b.lock.Database),
			cmp.Compare(a.database, b.database),
		)
	})
	all := make([]Lock, len(ordered))
	for i, one := range ordered {
		all[i] = *one.lock
	}
	return all
}

func compareHolders(a, b Holder) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GID, b.GID), cmp.Compare(a.Mode, b.Mode))
}

// compareWaiters sorts the longest waits first.
func compareWaiters(a, b Waiter) int {
	return cmp.Or(compareSince(a.WaitingSince, b.WaitingSince), cmp.Compare(a.PID, b.PID))
}

// compareSince sorts earlier times first. A wait that has just begun may not have a time yet.
func compareSince(a, b *time.Time) int {
	if a == nil || b == nil {
		return compareBool(a == nil, b == nil)
	}
	return a.Compare(*b)
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
