package monitor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Snapshot is what the server reported about its advisory locks at one moment. It is plain data: it does not change
// after [Take] has returned it, and it may be read from many goroutines.
//
// In JSON every field is always present, lists are never null, and times are in UTC. null means: no value, or
// unknown.
type Snapshot struct {
	// Version is the version of the JSON form, [FormatVersion]. It changes when a field is removed or changes its
	// meaning, but not when one is added.
	Version int `json:"version"`
	// TakenAt is the server's clock when it began to answer. Compare the other times with it, not with your own clock.
	TakenAt time.Time `json:"taken_at"`
	// ServerVersion is the server's version as it writes it, such as "15.4" or "16.1 (Debian 16.1-1)".
	ServerVersion string `json:"server_version"`
	// Server says which server answered.
	Server Server `json:"server"`
	// Database is the connected database. Only its name registry is read.
	Database string `json:"database"`
	// Role is the monitor's role.
	Role string `json:"role"`

	// NamesMissing says why locks have no registered names, or some have none, and what to do. It is empty if the name
	// registry could be read.
	NamesMissing string `json:"names_missing"`
	// DetailsHidden says why fields of some sessions are hidden, and what to do. It is empty if none are.
	DetailsHidden string `json:"details_hidden"`
	// BlockersMissing says why no waiter has blockers. It is empty if they could be read.
	BlockersMissing string `json:"blockers_missing"`

	// Capacity says how full the server's lock table is.
	Capacity Capacity `json:"capacity"`
	// Cycles are the deadlocks and possible deadlocks, including those that PostgreSQL cannot see.
	Cycles []Cycle `json:"cycles"`
	// Locks are the locks that are held or waited for: those of Database first, then by database, space and number. At
	// the end are the locks in rows of Database ([Lock.InRow]). Of these at most 1000 waiters are read, with up to 100
	// holders of each lock, and 1000 other holders. Each process and role has a share, so that its rows hide no others.
	// Within that the longest waits come first, then the oldest holders.
	Locks []Lock `json:"locks"`
	// OtherWaits are waits for locks that are not advisory locks, sorted by process ID.
	OtherWaits []OtherWait `json:"other_waits"`
	// WaitsElsewhere is how many other sessions wait for locks that are not advisory locks: those that [WithAdvisory]
	// leaves out.
	WaitsElsewhere int `json:"waits_elsewhere"`
	// OtherSessions are sessions and prepared transactions that neither hold nor want an advisory lock. They wait for
	// other locks, block such waits, or were asked for. They are sorted by process ID.
	OtherSessions []Session `json:"other_sessions"`

	// RowLocksMissing says why there are no locks in rows, or some waits for them are left out, and what to do. It is
	// empty if all waits could be read, and where schema pglock has none. IdleRowsMissing says why locks in rows are
	// left out for which nothing waits.
	RowLocksMissing string `json:"row_locks_missing"`
	IdleRowsMissing string `json:"idle_rows_missing"`
}

// Server identifies the server that answered, as the server itself reports it. Several servers can share an address.
type Server struct {
	// Host is the address on which the server took the connection; empty for a Unix socket. Port is the server's port.
	Host string `json:"host"`
	Port int32  `json:"port"`
	// InRecovery says that it is a standby. Its advisory locks are its own: those of the primary are not seen there.
	InRecovery bool `json:"in_recovery"`
}

// String returns the server's address, such as "192.0.2.1:5432", or "[local]:5432" for a Unix socket. For a standby it
// ends with " (standby)".
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

// Lock is one advisory lock of one database, or one lock in a row, with its holders and waiters.
type Lock struct {
	// InRow says that it is a lock in a row (package rowlock), whose holders and waiters are processes
	// ([Session.Lease]). It and an advisory lock of the same key do not exclude each other.
	InRow bool `json:"in_row"`
	// Key is the key as pglock writes it: its name if that is known, and otherwise @NUMBER or @CLASS/OBJECT.
	// [pglock.ParseKey] reads these. There are two forms that it does not read as this lock: the names of a collision,
	// joined by " | ", and @CLASS/OBJECT#OBJSUBID in spaces that no SQL function can reach.
	Key string `json:"key"`
	// Names are the known names, sorted. It is empty if there are none; more than one is a collision of their hashes. A
	// lock in a row has at most one, that which was registered first.
	Names []string `json:"names"`
	// Guesses say what well-known tools use the number of a key that has no name for, such as "goose migrations".
	// Numbers collide, so no guess is certain. A key with a name has none.
	Guesses []string `json:"guesses"`

	// Kind says what the lock is used for, as far as that is known: "leader" is the lock of an elected leader, for
	// which its candidates wait (package leader). "tick" is the lock of a job that is being run (package schedule).
	// "lock" is any other. A "semaphore" (package semaphore) stands for all its locks. There is a Holder for each
	// permit, so a session with several permits is in the list several times. One of the Waiters holds the gate and
	// looks for a released permit. It waits for no particular session, so it has no WaitingSince and no blockers. The
	// key is that of the gate.
	Kind string `json:"kind"`
	// Used is how many permits of a semaphore are held, and Limit how many there are. Limit comes from the name
	// registry and is 0 if it is unknown. Both are 0 for other locks.
	Used  int `json:"used"`
	Limit int `json:"limit"`

	// Space says what kind of key it is: "bigint" is a single bigint, which names hash to. "pair" is two integers.
	// "other" is used only by extensions such as Citus; Objsubid says which.
	Space string `json:"space"`
	// Objsubid is the space as pg_locks shows it: 1 bigint, 2 pair, others belong to extensions.
	Objsubid int16 `json:"objsubid"`
	// Number is the bigint. In other spaces it is class<<32 | uint32(object), as [pglock.Key.Int64] packs pairs. In
	// JSON it is a string, since many JSON parsers silently round integers beyond 2^53.
	Number int64 `json:"number,string"`
	// Class and Object are the two integers of a pair, and the halves of a bigint.
	Class  int32 `json:"class"`
	Object int32 `json:"object"`

	// DatabaseOID and Database are the lock's database: the same key in two databases is two locks. Database is empty
	// if the database was dropped while the snapshot was taken.
	DatabaseOID uint32 `json:"database_oid"`
	Database    string `json:"database"`

	// Holders hold the lock, sorted by process ID. A session that holds it in two modes is in the list twice. Those of
	// a lock in a row are in the order in which they took it. A holder whose lease has expired ([Lease.Left]) blocks no
	// waiter: the next caller takes the lock.
	Holders []Holder `json:"holders"`
	// Waiters wait for the lock, the longest wait first; those for a lock in a row in the order of their arrival.
	Waiters []Waiter `json:"waiters"`
}

// What a lock is used for.
const (
	kindLock      = "lock"
	kindLeader    = "leader"
	kindTick      = "tick"
	kindSemaphore = "semaphore"
)

// The kinds of advisory keys.
const (
	spaceBigint = "bigint"
	spacePair   = "pair"
	spaceOther  = "other"
)

// ID returns the lock's identity in its database, for maps and ==.
func (l Lock) ID() pglock.KeyID {
	return pglock.KeyID{Space: driver.Space(l.Objsubid), Number: l.Number}
}

// RawKey returns the key without a name: @NUMBER, or @CLASS/OBJECT. In a database it does not change, while Key does
// when a name becomes known. Like Key it has a form for the spaces that no SQL function can reach.
func (l Lock) RawKey() string {
	return identity{objsubid: l.Objsubid, number: l.Number}.text(nil)
}

// inRow ends the label of a lock in a row.
const inRow = " (row)"

// Label describes the lock in a few words: its Key or, if that has no name, what tools use it for. The label can
// contain names from the server.
func (l Lock) Label() string {
	text := l.Key
	switch {
	case l.Kind == kindSemaphore && l.Limit > 0:
		text = fmt.Sprintf("semaphore %s, %d of %d used", l.Key, l.Used, l.Limit)
	case l.Kind == kindSemaphore:
		text = fmt.Sprintf("semaphore %s, %d used", l.Key, l.Used)
	case l.Kind == kindLeader:
		text = "leader of " + l.Key
	case l.Kind == kindTick:
		text = "tick of " + l.Key
	case len(l.Guesses) > 0:
		text = "probably " + strings.Join(l.Guesses, " or ")
	}
	if l.InRow {
		text += inRow
	}
	return text
}

// primary reports whether who holds the lock is a leader, has a permit, or does the run of a job.
func (l *Lock) primary() bool {
	return l.Kind == kindLeader || l.Kind == kindSemaphore || l.Kind == kindTick
}

// Holder is a session or prepared transaction that holds a lock.
type Holder struct {
	// Mode is how it holds the lock: "exclusive", "shared", or another one of PostgreSQL's lock modes as pg_locks
	// writes it, such as "RowExclusiveLock", which extensions can use on their own keys.
	Mode string `json:"mode"`
	// SeenSince is when it was first seen to hold the lock, in an unbroken sequence of snapshots up to this one. It has
	// held the lock at least since then. [Take] sets it only for a lock in a row, to when the process took the lock;
	// the command pglock sets it and Code for others.
	SeenSince *time.Time `json:"seen_since"`
	// Code is "statement: " with the statement that took the lock. It is empty if that was not seen.
	Code string `json:"code"`
	// Generation is the fencing token of a lock in a row, and 0 for others. In JSON it is a string.
	Generation int64 `json:"generation,string"`
	Session
}

// Waiter is a session that waits for a lock.
type Waiter struct {
	// Mode is how it wants to hold the lock. It is empty if it waits for the end of a transaction.
	Mode string `json:"mode"`
	// WaitingSince is when it began to wait. It is nil in the first instant of a wait, and if Hidden names it.
	WaitingSince *time.Time `json:"waiting_since"`
	// Expected says that the wait belongs to normal work, as the waiter says itself: it is a candidate of an election,
	// waits for a permit of a semaphore, or for the run of a job that another process does. Another role cannot say it
	// for it.
	Expected bool `json:"expected"`
	Session
	// Ahead is how many do not hold the lock, but stand ahead in the queue for it in a mode that conflicts: one less
	// than its place in the queue.
	Ahead int `json:"ahead"`
	// BlockedBy are the sessions that block this one, sorted by process ID: those that hold the lock or, if none of
	// these is in its way, those ahead of it in the queue. They are those that pg_blocking_pids names, each once,
	// without those that came or went while the snapshot was taken; in JSON at most 16. For a lock in a row they are
	// the processes that hold it in a conflicting mode, at most 16. If there are none, it is the last process that
	// waits ahead in such a mode. The first in line for a permit of a semaphore waits for those that have the permits.
	BlockedBy Blockers `json:"blocked_by"`
}

// Session is a server session, or a prepared transaction, which outlives its session, or a process that uses locks in
// rows.
type Session struct {
	// PID is the process ID of the session's backend; 0 for a prepared transaction and for a process.
	PID int32 `json:"pid"`
	// GID is the identifier of a prepared transaction, for COMMIT PREPARED and ROLLBACK PREPARED. It is empty for
	// sessions, and for a transaction that ended while the snapshot was taken.
	GID string `json:"gid"`
	// PreparedAt is when a transaction was prepared.
	PreparedAt *time.Time `json:"prepared_at"`

	// User, Database and Application are the session's role, database and application_name. For a prepared transaction,
	// User is its owner and Application is empty; for a process of the server, Application is its type in parentheses.
	User        string `json:"user"`
	Database    string `json:"database"`
	Application string `json:"application"`
	// Process is the mark of the process whose pglock Locker the session belongs to. It is empty for all other
	// sessions. The sessions of one process have the same mark: the eight hexadecimal digits at the end of their
	// application_name, as in "payroll (pglock 1f3a9c42)". A session of another role can copy the mark.
	Process string `json:"process"`
	// Client is the client's address and port, such as "192.0.2.7:49152", or "[local]" for a Unix socket.
	Client string `json:"client"`
	// BackendType is what kind of process it is, as pg_stat_activity writes it: "client backend", "autovacuum worker".
	BackendType string `json:"backend_type"`
	// LeaderPID is the session that a parallel worker works for; 0 for all others. In the wait graph the leader stands
	// for its workers.
	LeaderPID int32 `json:"leader_pid"`
	// State is what the session does, as pg_stat_activity writes it: "active", "idle", "idle in transaction", or
	// "disabled" if track_activities is off.
	State string `json:"state"`
	// StateSince is when State last changed.
	StateSince *time.Time `json:"state_since"`
	// Query is the statement that runs, or else the last one. The server cuts it at track_activity_query_size bytes.
	Query string `json:"query"`
	// Since is when the session began. Together with PID it identifies the session permanently. For a process it is
	// when it began to use locks in rows.
	Since *time.Time `json:"session_since"`
	// TransactionSince is when its transaction began; nil outside a transaction.
	TransactionSince *time.Time `json:"transaction_since"`
	// XminAge is the age of the session's snapshot in transactions, as age(backend_xmin). XIDAge is the age of its own
	// transaction's ID, as age(backend_xid), or the age of a prepared transaction's ID. Vacuum can remove nothing that
	// was deleted since the older of the two. Nil means that there is none.
	XminAge *int64 `json:"xmin_age"`
	XIDAge  *int64 `json:"xid_age"`
	// WaitEventType and WaitEvent say what the backend itself waits for, as in pg_stat_activity.
	WaitEventType string `json:"wait_event_type"`
	WaitEvent     string `json:"wait_event"`

	// SignalledBy says who may cancel its statement, end it or, for a prepared transaction, roll it back, if the role
	// of the snapshot may not. It is empty if it may, or if that is not known.
	SignalledBy string `json:"signalled_by"`

	// Lease is set for a process that uses locks in rows, of which User, Database, Application and Since are known
	// besides.
	Lease *Lease `json:"lease"`

	// Hidden has the JSON names of the fields of this session that are unknown, as opposed to empty: the role may not
	// see them ([Snapshot.DetailsHidden]). If "user" is among them, the session was not found: it began or ended while
	// the snapshot was taken.
	Hidden []string `json:"hidden"`
}

// Lease is the counterpart of a session for a process with locks in rows. All its locks are free when it expires.
type Lease struct {
	// Holder identifies the process, with 16 hexadecimal digits.
	Holder string `json:"holder"`
	// Host is the name of its machine, as it says, and PID its process ID there.
	Host string `json:"host"`
	PID  int32  `json:"pid"`
	// Expires is the end of the lease by the server's clock, unless the process renews it. It is nil if the server has
	// forgotten the process.
	Expires *time.Time `json:"expires"`
}

// Left returns the rest of the lease at a time, negative if it has expired. ok is false if it is unknown.
func (l *Lease) Left(at time.Time) (left time.Duration, ok bool) {
	if l == nil || l.Expires == nil {
		return 0, false
	}
	return l.Expires.Sub(at), true
}

// over reports whether the lease is known to be over.
func (l *Lease) over(at time.Time) bool {
	left, known := l.Left(at)
	return known && left <= 0
}

// Prepared reports whether this is a prepared transaction.
func (s Session) Prepared() bool { return s.PID == 0 && s.Lease == nil }

// Blocker is an edge of the wait graph: a session that a waiter waits for.
type Blocker struct {
	// PID is the process ID of the blocking session; 0 for a prepared transaction and for a process.
	PID int32 `json:"pid"`
	// GID is the prepared transaction's identifier. It is empty for a session, and if the transaction has ended since.
	GID string `json:"gid"`
	// Holder identifies a process ([Lease.Holder]).
	Holder string `json:"holder"`
	// Kind says why it blocks the waiter: "hard" if it holds the lock in a mode that conflicts with the waiter's,
	// "soft" if it waits for the lock in such a mode, ahead in the queue. A blocker whose lock was no longer seen also
	// counts as soft.
	Kind string `json:"kind"`
	// Mode is how it holds a lock that is not an advisory lock, as pg_locks writes it. It is empty for advisory locks,
	// whose holders the snapshot has, for transactions, and for a soft block.
	Mode string `json:"mode"`
}

// Why a session blocks a waiter.
const (
	blockHard = "hard"
	blockSoft = "soft"
)

// Find returns the advisory lock of key in the connected database, or false if no session holds it or waits for it.
func (s *Snapshot) Find(key pglock.Key) (Lock, bool) {
	for _, lock := range s.Locks {
		if !lock.InRow && lock.Database == s.Database && lock.ID() == key.ID() {
			return lock, true
		}
	}
	return Lock{}, false
}
