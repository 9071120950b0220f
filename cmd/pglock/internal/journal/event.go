package journal

import (
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// FormatVersion is the version of the JSON form of an [Event]. It changes when a field is removed or changes its meaning.
const FormatVersion = 1

// Kind is what happened.
type Kind string

const (
	// WaitBegan: a session began to wait for a lock.
	WaitBegan Kind = "wait-began"
	// WaitEnded: a session stopped waiting and was not seen to hold the lock. It gave up, or held the lock only between
	// two snapshots. Who holds a lock that is neither an advisory lock nor in a row is not seen, so each wait for one ends so.
	WaitEnded Kind = "wait-ended"
	// Acquired: a session acquired a lock that was free, or that it shares with others.
	Acquired Kind = "acquired"
	// PassedOn: a session acquired a lock that others (From) held in the snapshot before.
	PassedOn Kind = "passed-on"
	// Released: a session no longer holds a lock, and no other session acquired it at once.
	Released Kind = "released"
	// Deadlock: a cycle of waits appeared. DeadlockOver: it is gone.
	Deadlock     Kind = "deadlock"
	DeadlockOver Kind = "deadlock-over"
	// SessionEnded: a session ended that held a contended lock or waited for one, or that blocked such a session with a
	// lock of another type.
	SessionEnded Kind = "session-ended"
	// Gap: this is the first snapshot after a time without any. The events of that time are unknown.
	Gap Kind = "gap"
)

// Event is something that happened between two snapshots. In JSON lists are never null, and null means that there is no
// value or that it is unknown.
type Event struct {
	// Version is [FormatVersion].
	Version int `json:"version"`
	// Kind is what happened.
	Kind Kind `json:"event"`
	// Server is where it happened, as in [monitor.Snapshot].
	Server monitor.Server `json:"server"`
	// At is the time of the first snapshot that showed it, by the server's clock, and After the time of the snapshot
	// before. It happened between the two. After is nil for events of the first snapshot.
	At    time.Time  `json:"at"`
	After *time.Time `json:"after"`

	// LockType is "advisory", "row" for a lock in a row (package rowlock), and for others the locktype of pg_locks, such as
	// "relation". It is empty for events that are not about one lock.
	LockType string `json:"lock_type"`
	// The lock, as in [monitor.Lock]. These fields are zero for events that are not about one lock. Of a lock of another type
	// there is Key, which describes it as [monitor.OtherLock.String] does, and Database.
	Key         string `json:"key"`
	Space       string `json:"space"`
	Objsubid    int16  `json:"objsubid"`
	Number      int64  `json:"number,string"`
	DatabaseOID uint32 `json:"database_oid"`
	Database    string `json:"database"`

	// Session is the session that the event is about; nil for a deadlock and a gap.
	Session *Party `json:"session"`
	// Mode is how the session holds the lock or wants to hold it.
	Mode string `json:"mode"`
	// From are the sessions that held the lock before, at most ten. It is set for PassedOn.
	From []Party `json:"from"`
	// BlockedBy are the sessions that block the waiter, at most ten. It is set for WaitBegan.
	BlockedBy []Party `json:"blocked_by"`
	// Headline is what mattered most when it happened ([monitor.Action]), as all faces of the monitor say it. It is set for
	// WaitBegan and Deadlock.
	Headline string `json:"headline"`
	// End is the command, or for a prepared transaction the SQL, that ends the session or process at the root of Headline; empty
	// if there is none, and for events of the past.
	End string `json:"end"`
	// WaitingSince is when the wait began, and WaitedSeconds how long it lasted at most, which is until At. If it ended in a gap,
	// WaitedSeconds is nil, and SeenWaitingSeconds is how long it lasted at least, which is until After.
	WaitingSince       *time.Time `json:"waiting_since"`
	WaitedSeconds      *float64   `json:"waited_seconds"`
	SeenWaitingSeconds *float64   `json:"seen_waiting_seconds"`
	// SeenSince is when the session was first seen to hold the lock. It held the lock at least from then to After. It is
	// set for Released.
	SeenSince *time.Time `json:"seen_since"`
	// Code is the code that took the lock or waits for it, if that was seen, as in [monitor.Holder].
	Code string `json:"code"`
	// Steps and Certain describe a deadlock, as in [monitor.Cycle].
	Steps   []monitor.Step `json:"steps"`
	Certain bool           `json:"certain"`
	// Reason says why it happened, if that is known: "session ended", or the error of a gap.
	Reason string `json:"reason"`
}

// Party is a session or prepared transaction that is involved in an event, or a process that uses locks in rows.
type Party struct {
	PID         int32      `json:"pid"`
	GID         string     `json:"gid"`
	User        string     `json:"user"`
	Database    string     `json:"database"`
	Application string     `json:"application"`
	Client      string     `json:"client"`
	State       string     `json:"state"`
	Since       *time.Time `json:"session_since"`
	// Holder identifies a process that uses locks in rows ([monitor.Lease]), and Host is its machine; its PID is one of that
	// machine. They are empty for others.
	Holder string `json:"holder"`
	Host   string `json:"host"`
	// SeenSince is when it was first seen to hold the lock, and Code the code that took it. They are empty if it does
	// not hold the lock or that was not seen.
	SeenSince *time.Time `json:"seen_since"`
	Code      string     `json:"code"`
}

// The types of locks that pg_locks does not have, or has under the same name.
const (
	typeAdvisory = "advisory"
	typeRow      = "row"
)

func party(s monitor.Session) Party {
	if l := s.Lease; l != nil {
		return Party{PID: l.PID, Holder: l.Holder, Host: l.Host, User: s.User, Application: s.Application, Since: s.Since}
	}
	return Party{PID: s.PID, GID: s.GID, User: s.User, Database: s.Database, Application: s.Application,
		Client: s.Client, State: s.State, Since: s.Since}
}

func holderParty(h monitor.Holder) Party {
	p := party(h.Session)
	p.SeenSince, p.Code = h.SeenSince, h.Code
	return p
}

// event returns an event of a snapshot.
func (j *Journal) event(kind Kind, at time.Time) Event {
	e := Event{Version: FormatVersion, Kind: kind, Server: j.server, At: at, From: []Party{}, BlockedBy: []Party{}, Steps: []monitor.Step{}}
	if !j.last.IsZero() {
		after := j.last
		e.After = &after
	}
	return e
}

// withLock sets the fields that describe the lock.
func (e Event) withLock(lock *monitor.Lock) Event {
	if e.LockType = typeAdvisory; lock.InRow {
		e.LockType = typeRow
	}
	e.Key, e.Space, e.Objsubid, e.Number = lock.Key, lock.Space, lock.Objsubid, lock.Number
	e.DatabaseOID, e.Database = lock.DatabaseOID, lock.Database
	return e
}

// withSession sets the session and its code.
func (e Event) withSession(p Party) Event {
	e.Session = &p
	e.Code = p.Code
	return e
}

// withWait sets the fields about a wait that ended before the event.
func (s step) withWait(e Event, since *time.Time) Event {
	if since == nil {
		return e
	}
	seconds := max(0, e.At.Sub(*since).Seconds())
	e.WaitingSince, e.WaitedSeconds = since, &seconds
	if s.gap && e.After != nil {
		seconds = max(0, e.After.Sub(*since).Seconds())
		e.WaitedSeconds, e.SeenWaitingSeconds = nil, &seconds
	}
	return e
}
