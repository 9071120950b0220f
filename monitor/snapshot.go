package monitor

import (
	"iter"
	"net"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Snapshot is what the server reported about its advisory locks at one moment. It is plain data: it does not change
// after [Take] has returned it, and it may be read from many goroutines.
//
// As JSON every field is always present; lists are never null, times are in UTC, and null says that there is none or
// that it is unknown.
type Snapshot struct {
	// Version is that of the JSON form, [FormatVersion]. It changes when a field goes or means something else, and not
	// when one is added.
	Version int `json:"version"`
	// TakenAt is the server's clock when it began to answer; compare the other times with it, not with your own clock.
	TakenAt time.Time `json:"taken_at"`
	// ServerVersion is the server's version as it writes it, such as "15.4" or "16.1 (Debian 16.1-1)".
	ServerVersion string `json:"server_version"`
	// Server says which server answered.
	Server Server `json:"server"`
	// Database is the database that was connected to. The name registry of no other is read.
	Database string `json:"database"`
	// Role is the role that looked.
	Role string `json:"role"`

	// NamesMissing says why no lock has a registered name, and what to do; it is empty when the name registry could be
	// read.
	NamesMissing string `json:"names_missing"`
	// DetailsHidden says why fields of some sessions are hidden, and what to do; it is empty when none are.
	DetailsHidden string `json:"details_hidden"`
	// BlockersMissing says why no waiter has blockers; it is empty when they could be read.
	BlockersMissing string `json:"blockers_missing"`

	// Capacity is how full the server's lock table is.
	Capacity Capacity `json:"capacity"`
	// Cycles are the deadlocks in the making, those that PostgreSQL will see and those that it cannot see.
	Cycles []Cycle `json:"cycles"`
	// Locks are the locks that are held or waited for: those of Database first, then by database, space and number.
	Locks []Lock `json:"locks"`
	// OtherWaits are waits for locks that are not advisory locks, as far as they are part of the wait graph: from the
	// sessions that hold or wait for an advisory lock, or were asked for ([WithSession]), all edges are followed, to
	// those in the way and to those behind, and so on. They are in the order of the process IDs.
	OtherWaits []OtherWait `json:"other_waits"`
	// OtherSessions are the sessions and prepared transactions of the wait graph that neither hold nor wait for an
	// advisory lock, and those that were asked for, in the order of their process IDs.
	OtherSessions []Session `json:"other_sessions"`
}

// Server identifies the server that answered, in its own words: several servers can be behind one address.
type Server struct {
	// Host is the address on which the server took the connection; empty for a Unix socket. Port is the server's port.
	Host string `json:"host"`
	Port int32  `json:"port"`
	// InRecovery says that it is a standby. Its advisory locks are its own: those of the primary are not seen there.
	InRecovery bool `json:"in_recovery"`
	// Label is what a program that watches several servers calls this one. It does not come from the server: [Take]
	// leaves it empty.
	Label string `json:"label"`
}

// String is the server's address, such as "192.0.2.1:5432", or "[local]:5432" for a Unix socket, with " (standby)" behind
// that of a standby.
func (s Server) String() string {
	text := net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port)))
	if s.Host == "" {
		text = "[local]" + text
	}
	if s.InRecovery {
		text += " (standby)"
	}
	return text
}

// FormatVersion is the version of the JSON form of a [Snapshot].
const FormatVersion = 1

// Lock is one advisory lock of one database, with its holders and waiters.
type Lock struct {
	// Key is how pglock writes the key: the name where it is known, else @NUMBER or @CLASS/OBJECT, all of which
	// [pglock.ParseKey] reads. There are two exceptions, which it does not read as this lock: the names of a
	// collision, joined by " | ", and @CLASS/OBJECT#OBJSUBID in spaces that no SQL function can reach.
	Key string `json:"key"`
	// Names are the names that are known, sorted. Without one it is empty; more than one is a collision of their hashes.
	Names []string `json:"names"`
	// Guesses are what a key without a name probably is, the likelier ones first: numbers that tools are known to use.
	// Numbers collide, so none of it is certain. A key with a name has none.
	Guesses []Guess `json:"guesses"`

	// Kind says what the lock is used for, as far as its keys tell.
	Kind LockKind `json:"kind"`
	// Used is how many permits of a semaphore are held, and Limit how many there are; Limit is 0 when it is not known,
	// since only a name registry has it. Both are 0 for other locks.
	Used  int `json:"used"`
	Limit int `json:"limit"`

	// Space says what kind of key it is.
	Space Space `json:"space"`
	// Objsubid is the space as pg_locks shows it: 1 bigint, 2 pair, others belong to extensions.
	Objsubid int16 `json:"objsubid"`
	// Number is the bigint; of other spaces it is class<<32 | uint32(object), as [pglock.Key.Int64] packs pairs. In
	// JSON it is a string, since most readers of JSON silently round integers beyond 2^53.
	Number int64 `json:"number,string"`
	// Class and Object are the two integers of a pair, and the halves of a bigint.
	Class  int32 `json:"class"`
	Object int32 `json:"object"`
	// ClassID and ObjectID are Class and Object as pg_locks shows them, without a sign.
	ClassID  uint32 `json:"classid"`
	ObjectID uint32 `json:"objid"`

	// DatabaseOID and Database are where the lock is: the same key in two databases is two locks. Database is empty
	// when the database was dropped as the snapshot was taken.
	DatabaseOID uint32 `json:"database_oid"`
	Database    string `json:"database"`

	// Holders hold the lock, in the order of their process IDs. A session that holds it in two modes is there twice.
	Holders []Holder `json:"holders"`
	// Waiters wait for it, those that have waited longest first.
	Waiters []Waiter `json:"waiters"`
}

// LockKind is what a lock is used for.
type LockKind string

const (
	// KindLock is every lock about which no more is known.
	KindLock LockKind = "lock"
	// KindLeader is the lock that the leader of an election holds (package leader), and that the candidates wait for.
	KindLeader LockKind = "leader"
	// KindTick is the lock of a job that is being run for one of its due times (package schedule).
	KindTick LockKind = "tick"
	// KindSemaphore is a semaphore (package semaphore), whose locks are shown as one: its Holders have one permit each, and
	// are there once for each; its Waiters stand in line. One of them holds the gate and looks for a permit that is
	// released; it waits for no particular session, so it has no WaitingSince and no blockers. Its key is that of the
	// gate.
	KindSemaphore LockKind = "semaphore"
)

// Space is a kind of advisory key.
type Space string

const (
	// SpaceBigint is the space of keys of one bigint, which names hash to.
	SpaceBigint Space = "bigint"
	// SpacePair is the space of keys of two integers.
	SpacePair Space = "pair"
	// SpaceOther is every space that only extensions use, such as Citus; [Lock.Objsubid] says which.
	SpaceOther Space = "other"
)

// ID returns the lock's identity in its database, for maps and ==.
func (l Lock) ID() pglock.KeyID {
	return pglock.KeyID{Space: driver.Space(l.Objsubid), Number: l.Number}
}

// Holder is a session or prepared transaction that holds a lock.
type Holder struct {
	// Mode is how it holds the lock.
	Mode Mode `json:"mode"`
	// SeenSince is when it was first seen to hold the lock, in an unbroken row of snapshots up to this one: it has held the
	// lock at least since then. [Take] sees one snapshot only and leaves it nil, as it does Code; package journal fills
	// both in.
	SeenSince *time.Time `json:"seen_since"`
	// Code says which code took the lock; nil when that was not seen.
	Code *Code `json:"code"`
	Session
}

// Waiter is a session that waits for a lock.
type Waiter struct {
	// Mode is how it wants to hold the lock.
	Mode Mode `json:"mode"`
	// WaitingSince is when it began to wait. It is nil in the first instant of a wait, and when Hidden names it.
	WaitingSince *time.Time `json:"waiting_since"`
	// WaitingEstimated says that WaitingSince is an estimate, and the wait no longer than that: PostgreSQL 13 does
	// not report when a wait began, so it is when the session's statement did.
	WaitingEstimated bool `json:"waiting_estimated"`
	Session
	// BlockedBy are the sessions that have to go ahead of this one, in the order of their process IDs: exactly those
	// that pg_blocking_pids names, each once, less those that came or went as the snapshot was taken.
	BlockedBy []Blocker `json:"blocked_by"`
}

// Session is a server session, or a prepared transaction, which outlives its session.
type Session struct {
	// PID is the process ID of the session's backend; 0 for a prepared transaction.
	PID int32 `json:"pid"`
	// GID is the identifier of a prepared transaction, which COMMIT PREPARED and ROLLBACK PREPARED take. It is empty
	// for sessions, and for a transaction that was ended as the snapshot was taken.
	GID string `json:"gid"`
	// PreparedAt is when a transaction was prepared.
	PreparedAt *time.Time `json:"prepared_at"`

	// User, Database and Application are the session's role, database and application_name; of a prepared transaction,
	// its owner and database.
	User        string `json:"user"`
	Database    string `json:"database"`
	Application string `json:"application"`
	// Process marks the process whose pglock Locker the session belongs to; it is empty for all other sessions. A Locker's
	// sessions of one process have the same mark: the eight hexadecimal digits that their application_name ends with, as
	// in "payroll (pglock 1f3a9c42)". That is what the session says about itself; see [Session.SameProcess].
	Process string `json:"process"`
	// Identity is a number that distinguishes the session from all others of the server: the object of the pair key
	// that a Locker's session also holds once one of its locks has guarded a transaction. It is nil without one. That
	// key is not a lock, so it is not among [Snapshot.Locks].
	Identity *int32 `json:"identity"`
	// Client is the client's address and port, such as "192.0.2.7:49152", or "[local]" for a Unix socket.
	Client string `json:"client"`
	// BackendType is what kind of process it is, as pg_stat_activity writes it: "client backend", "autovacuum worker".
	BackendType string `json:"backend_type"`
	// LeaderPID is the session that a parallel worker works for; 0 for all others. In the wait graph the leader takes
	// the place of its workers, so they are not in it.
	LeaderPID int32 `json:"leader_pid"`
	// State is what the session does, as pg_stat_activity writes it: "active", "idle", "idle in transaction"; "disabled"
	// when track_activities is off.
	State string `json:"state"`
	// StateSince is when State last changed.
	StateSince *time.Time `json:"state_since"`
	// Query is the statement that runs, or else the last one; the server cuts it at track_activity_query_size bytes.
	Query string `json:"query"`
	// Since is when the session began. Together with PID it identifies the session for ever.
	Since *time.Time `json:"session_since"`
	// TransactionSince is when its transaction began; nil outside of one.
	TransactionSince *time.Time `json:"transaction_since"`
	// XminAge is how many transactions ago the snapshot was taken that the session works with, as age(backend_xmin), and
	// XIDAge how many transactions ago its own transaction got an ID, as age(backend_xid); of a prepared transaction, its
	// ID. Vacuum can remove nothing that was deleted since the older of the two. Nil means that there is none.
	XminAge *int64 `json:"xmin_age"`
	XIDAge  *int64 `json:"xid_age"`
	// WaitEventType and WaitEvent say what the backend itself waits for, as in pg_stat_activity.
	WaitEventType string `json:"wait_event_type"`
	WaitEvent     string `json:"wait_event"`

	// Hidden names, as JSON does, the fields of this session that the server did not tell, which is not the same as
	// empty: the role may not see them ([Snapshot.DetailsHidden]), or, when "user" is among them, the session began or
	// ended just then and was not found.
	Hidden []string `json:"hidden"`
}

// Prepared reports whether this is a prepared transaction.
func (s Session) Prepared() bool { return s.PID == 0 }

// Blocker is an edge of the wait graph: a session that a waiter waits for.
type Blocker struct {
	// PID is the process ID of the session in the way; 0 for a prepared transaction.
	PID int32 `json:"pid"`
	// GID is the prepared transaction's identifier; empty for a session, and when the transaction has ended since.
	GID string `json:"gid"`
	// Kind says why it is in the way.
	Kind BlockKind `json:"kind"`
}

// BlockKind says why a session is in the way of a waiter.
type BlockKind string

const (
	// BlockHard means that it holds the lock in a mode that conflicts with what the waiter wants.
	BlockHard BlockKind = "hard"
	// BlockSoft means that it does not hold the lock so, but waits for it in a conflicting mode, ahead in the queue. A blocker
	// whose lock was not seen any more is called soft too.
	BlockSoft BlockKind = "soft"
)

// Find returns the lock of key in the connected database; it returns false if no session holds it or waits for it.
func (s *Snapshot) Find(key pglock.Key) (Lock, bool) {
	for _, lock := range s.Locks {
		if lock.Database == s.Database && lock.ID() == key.ID() {
			return lock, true
		}
	}
	return Lock{}, false
}

// HeldBy returns the locks that the session with this process ID holds, in the order of Locks: what would be freed if
// it ended. With 0 these are the locks of all prepared transactions.
func (s *Snapshot) HeldBy(pid int32) []Lock {
	var held []Lock
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			if holder.PID == pid {
				held = append(held, lock)
				break
			}
		}
	}
	return held
}

// Waiters returns an iterator over all waiters and their locks.
func (s *Snapshot) Waiters() iter.Seq2[Lock, Waiter] {
	return func(yield func(Lock, Waiter) bool) {
		for _, lock := range s.Locks {
			for _, waiter := range lock.Waiters {
				if !yield(lock, waiter) {
					return
				}
			}
		}
	}
}
