package monitor

import (
	"cmp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// RowLock is a lock in a row (package rowlock) of the connected database, with its holders and waiters. It and an advisory
// lock of the same key do not exclude each other.
type RowLock struct {
	// Key is the key as pglock writes it, as in [Lock.Key].
	Key string `json:"key"`
	// Name is the registered name of the key, or that of the caller's dictionary, and empty if there is none. If names
	// collide, it is the one that was registered first.
	Name string `json:"name"`
	// Kind says what the lock is used for, as far as that is known. The locks of a semaphore are not merged.
	Kind LockKind `json:"kind"`
	// Space says what kind of key it is.
	Space Space `json:"space"`
	// Number is the bigint, or class<<32 | uint32(object). In JSON it is a string, as in [Lock.Number].
	Number int64 `json:"number,string"`
	// Class and Object are the two integers of a pair, and the halves of a bigint.
	Class  int32 `json:"class"`
	Object int32 `json:"object"`
	// Holders hold the lock, the oldest first. One whose lease is over ([RowProcess.LeaseLeft]) has left it behind: it blocks
	// no waiter, and the next caller takes the lock.
	Holders []RowHolder `json:"holders"`
	// Waiters wait for it, in the order of their arrival. Those whose leases are over are not among them.
	Waiters []RowWaiter `json:"waiters"`
}

// RowHolder is a process that holds a lock in a row.
type RowHolder struct {
	// Mode is how it holds the lock.
	Mode Mode `json:"mode"`
	// Generation is the fencing token. In JSON it is a string.
	Generation int64 `json:"generation,string"`
	// HeldSince is when the process took the lock.
	HeldSince time.Time `json:"held_since"`
	RowProcess
}

// RowWaiter is a process that waits for a lock in a row.
type RowWaiter struct {
	// Mode is how it wants to hold the lock.
	Mode Mode `json:"mode"`
	// Arrival is its place: who has a smaller one is served earlier. In JSON it is a string.
	Arrival int64 `json:"arrival,string"`
	// WaitingSince is when it began to wait.
	WaitingSince time.Time `json:"waiting_since"`
	RowProcess
	// BlockedBy are the processes ([RowProcess.Holder]) that hold the lock in a mode that conflicts, at most 16 of them.
	// Earlier waiters are in the way too.
	BlockedBy []string `json:"blocked_by"`
}

// RowProcess is a process that holds locks in rows or waits for them. All its locks are free when its lease is over.
type RowProcess struct {
	// Holder identifies the process, with 16 hexadecimal digits.
	Holder string `json:"holder"`
	// User is the role of its sessions, and Application what it calls itself.
	User        string `json:"user"`
	Application string `json:"application"`
	// Host is the name of its machine, as it says, and PID its process ID there.
	Host string `json:"host"`
	PID  int32  `json:"pid"`
	// Since is when the process began to use locks in rows.
	Since *time.Time `json:"process_since"`
	// LeaseExpires is when its lease is over, by the server's clock, unless it renews it.
	LeaseExpires *time.Time `json:"lease_expires"`
	// Hidden has the JSON names of the fields that are unknown: the role may not see them ([Snapshot.DetailsHidden]), or,
	// if "user" is among them, the server has forgotten the process.
	Hidden []string `json:"hidden"`
}

// Fields of a RowProcess that can be hidden, by their names in JSON.
var (
	rowHostFields    = []string{"host", "pid"}
	rowProcessFields = append([]string{"user", "application", "process_since", "lease_expires"}, rowHostFields...)
)

// LeaseLeft returns how long the lease lasts from a time on unless it is renewed, negative if it is over. ok is false if
// that is unknown.
func (p RowProcess) LeaseLeft(at time.Time) (left time.Duration, ok bool) {
	if p.LeaseExpires == nil {
		return 0, false
	}
	return p.LeaseExpires.Sub(at), true
}

func (p RowProcess) over(at time.Time) bool {
	left, known := p.LeaseLeft(at)
	return known && left <= 0
}

// ID returns the identity of the key, for maps and ==.
func (l RowLock) ID() pglock.KeyID {
	space := driver.SpaceBigint
	if l.Space == SpacePair {
		space = driver.SpacePair
	}
	return pglock.KeyID{Space: space, Number: l.Number}
}

// Label describes the lock, as [Lock.Label] does.
func (l RowLock) Label() string {
	switch l.Kind {
	case KindLeader:
		return "leader of " + l.Key
	case KindTick:
		return "tick of " + l.Key
	}
	return l.Key
}

// Expected reports whether waits for the lock belong to normal work, as [Wait.Expected] does.
func (l RowLock) Expected() bool {
	return l.Kind == KindLeader || l.Kind == KindSemaphore || l.Kind == KindTick
}

// RowLocksOf returns the locks in rows that a process ([RowProcess.Holder]) holds.
func (s *Snapshot) RowLocksOf(holder string) (held []RowLock) {
	for _, lock := range s.RowLocks {
		if slices.ContainsFunc(lock.Holders, func(h RowHolder) bool { return h.Holder == holder }) {
			held = append(held, lock)
		}
	}
	return held
}

// rowLock is a row of pglock.row_locks, as the statement RowLocks returns it in JSON.
type rowLock struct {
	Space       int16   `json:"space"`
	Number      int64   `json:"number"`
	Granted     bool    `json:"granted"`
	Since       int64   `json:"since"`
	Generation  int64   `json:"generation"`
	Mode        string  `json:"mode"`
	Holder      string  `json:"holder"`
	Role        *string `json:"role"`
	Application *string `json:"application"`
	Host        *string `json:"host"`
	PID         *int32  `json:"pid"`
	Process     *int64  `json:"process_since"`
	Expires     *int64  `json:"expires"`
	Name        *string `json:"name"`
}

func (r rowLock) process() RowProcess {
	p := RowProcess{
		Holder: r.Holder, User: value(r.Role), Application: value(r.Application), Host: value(r.Host), PID: value(r.PID),
		Since: microseconds(r.Process), LeaseExpires: microseconds(r.Expires), Hidden: []string{},
	}
	switch {
	case r.Role == nil:
		p.Hidden = slices.Clone(rowProcessFields)
	case r.Host == nil:
		p.Hidden = slices.Clone(rowHostFields)
	}
	return p
}

func microseconds(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := time.UnixMicro(*us).UTC()
	return &t
}

// rowLocks returns the locks in rows at a time, sorted by space and number. A lock that only says what another one is for
// is not among them.
func rowLocks(rows []rowLock, at time.Time, connected uint32, names *Dictionary) []RowLock {
	byID, marks := map[identity]*RowLock{}, map[identity]bool{}
	for _, row := range rows {
		id := identity{connected, row.Space, row.Number}
		if isMark(id) {
			marks[id] = true
			continue
		}
		if byID[id] == nil {
			byID[id] = newRowLock(id, value(row.Name), names)
		}
		byID[id].add(row, at)
	}
	all := []RowLock{}
	for id, lock := range byID {
		lock.Kind = kindOfRow(id, marks)
		if len(lock.Holders)+len(lock.Waiters) == 0 {
			continue
		}
		lock.connect(at)
		all = append(all, *lock)
	}
	slices.SortFunc(all, func(a, b RowLock) int { return a.ID().Compare(b.ID()) })
	return all
}

func newRowLock(id identity, name string, names *Dictionary) *RowLock {
	if given, ok := names.name(id); ok && name == "" {
		name = given
	}
	lock := &RowLock{Name: name, Space: id.space(), Number: id.number, Holders: []RowHolder{}, Waiters: []RowWaiter{}}
	lock.Class, lock.Object = id.halves()
	if lock.Key = id.text(nil); name != "" {
		lock.Key = id.text([]string{name})
	}
	return lock
}

func (l *RowLock) add(row rowLock, at time.Time) {
	mode := ModeExclusive
	if row.Mode == "shared" {
		mode = ModeShared
	}
	since, process := time.UnixMicro(row.Since).UTC(), row.process()
	switch {
	case row.Granted:
		l.Holders = append(l.Holders, RowHolder{mode, row.Generation, since, process})
	case !process.over(at):
		l.Waiters = append(l.Waiters, RowWaiter{mode, row.Generation, since, process, []string{}})
	}
}

// held reports whether there is a holder whose lease is not over.
func (l *RowLock) held(at time.Time) bool {
	return slices.ContainsFunc(l.Holders, func(h RowHolder) bool { return !h.over(at) })
}

// connect sorts the holders and waiters, and notes which of the former are in the way of the latter.
func (l *RowLock) connect(at time.Time) {
	slices.SortFunc(l.Holders, func(a, b RowHolder) int { return cmp.Compare(a.Generation, b.Generation) })
	slices.SortFunc(l.Waiters, func(a, b RowWaiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	var exclusive, all []string
	for _, h := range l.Holders {
		if h.over(at) {
			continue
		}
		all = append(all, h.Holder)
		if h.Mode == ModeExclusive {
			exclusive = append(exclusive, h.Holder)
		}
	}
	for i := range l.Waiters {
		blockers := all
		if l.Waiters[i].Mode == ModeShared {
			blockers = exclusive
		}
		l.Waiters[i].BlockedBy = append(l.Waiters[i].BlockedBy, blockers[:min(len(blockers), maxRowBlockers)]...)
	}
}

// maxRowBlockers bounds the edges between many waiters and many shared holders.
const maxRowBlockers = 16

// kindOfRow says what a lock is used for.
func kindOfRow(id identity, marks map[identity]bool) LockKind {
	has := func(mark lockkeys.Mark) bool {
		key := mark.Of(id.key())
		return marks[identity{id.database, int16(key.Space), key.Number}]
	}
	_, _, semaphore := lockkeys.ParseSemaphore(id.key())
	switch {
	case semaphore:
		return KindSemaphore
	case has(lockkeys.LeaderMark):
		return KindLeader
	case has(lockkeys.TickMark):
		return KindTick
	}
	return KindLock
}
