package journal

import (
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// FormatVersion is the version of the JSON form of an [Event]. It changes when a field goes or means something else.
const FormatVersion = 1

// Kind is what happened.
type Kind string

const (
	// WaitBegan is when a session began to wait for a lock.
	WaitBegan Kind = "wait-began"
	// WaitEnded is when a session stopped waiting and was not seen to hold the lock: it gave up, or had the lock for less
	// than the time between two snapshots.
	WaitEnded Kind = "wait-ended"
	// Acquired is when a session got a lock that was free, or that others share.
	Acquired Kind = "acquired"
	// PassedOn is when a session got a lock that others (From) had in the snapshot before.
	PassedOn Kind = "passed-on"
	// Released is when a session no longer held a lock that no other got at once.
	Released Kind = "released"
	// Deadlock is when a cycle of waits was seen first, and DeadlockOver when it was gone.
	Deadlock     Kind = "deadlock"
	DeadlockOver Kind = "deadlock-over"
	// SessionEnded is when a session ended that held a contended lock or waited for one, or that was in the way of such a
	// session for a lock of another type.
	SessionEnded Kind = "session-ended"
	// Gap is when snapshots came again after a time without any. The events of that time are unknown.
	Gap Kind = "gap"
)

// Event is something that happened between two snapshots. Lists are never null in JSON, and null says that there is none
// or that it is unknown.
type Event struct {
	// Version is [FormatVersion].
	Version int `json:"version"`
	// Kind is what happened.
	Kind Kind `json:"event"`
	// Server is where it happened, as in [monitor.Snapshot].
	Server monitor.Server `json:"server"`
	// At is the server's clock of the first snapshot that showed it, and After that of the one before: it happened between
	// the two. After is nil for what the first snapshot showed.
	At    time.Time  `json:"at"`
	After *time.Time `json:"after"`

	// The lock, as in [monitor.Lock]. They are zero for events that are not about one lock.
	Key         string        `json:"key"`
	Space       monitor.Space `json:"space"`
	Objsubid    int16         `json:"objsubid"`
	Number      int64         `json:"number,string"`
	DatabaseOID uint32        `json:"database_oid"`
	Database    string        `json:"database"`

	// Session is who did it; nil for a deadlock and a gap.
	Session *Party `json:"session"`
	// Mode is how it holds the lock, or wants to.
	Mode monitor.Mode `json:"mode"`
	// From are the sessions that had the lock before, of PassedOn.
	From []Party `json:"from"`
	// BlockedBy are the sessions in the way, of WaitBegan.
	BlockedBy []Party `json:"blocked_by"`
	// WaitingSince is when the wait began and WaitedSeconds how long it lasted, at most: until At.
	WaitingSince  *time.Time `json:"waiting_since"`
	WaitedSeconds *float64   `json:"waited_seconds"`
	// SeenSince is since when the session was seen to hold the lock, of Released; it held it at least from then to After.
	SeenSince *time.Time `json:"seen_since"`
	// Code is which code took the lock or waits for it, as far as it was seen.
	Code *monitor.Code `json:"code"`
	// Steps are the waits of a deadlock, and Certain is as in [monitor.Cycle].
	Steps   []monitor.Step `json:"steps"`
	Certain bool           `json:"certain"`
	// Reason says why, where that is known: "session ended", or the error of a gap.
	Reason string `json:"reason"`
}

// Party is a session or prepared transaction that has a part in an event.
type Party struct {
	PID         int32      `json:"pid"`
	GID         string     `json:"gid"`
	User        string     `json:"user"`
	Database    string     `json:"database"`
	Application string     `json:"application"`
	Client      string     `json:"client"`
	State       string     `json:"state"`
	Since       *time.Time `json:"session_since"`
	// SeenSince is since when it was seen to hold the lock, and Code which code took it; nil when it does not hold it or
	// that was not seen.
	SeenSince *time.Time    `json:"seen_since"`
	Code      *monitor.Code `json:"code"`
}

func party(s monitor.Session) Party {
	return Party{PID: s.PID, GID: s.GID, User: s.User, Database: s.Database, Application: s.Application,
		Client: s.Client, State: s.State, Since: s.Since}
}

func holderParty(h monitor.Holder) Party {
	p := party(h.Session)
	p.SeenSince, p.Code = h.SeenSince, h.Code
	return p
}

// event begins an event that a snapshot showed.
func (j *Journal) event(kind Kind, at time.Time) Event {
	e := Event{Version: FormatVersion, Kind: kind, Server: j.server, At: at, From: []Party{}, BlockedBy: []Party{}, Steps: []monitor.Step{}}
	if !j.last.IsZero() {
		after := j.last
		e.After = &after
	}
	return e
}

// on makes it an event about a lock.
func (e Event) on(lock *monitor.Lock) Event {
	e.Key, e.Space, e.Objsubid, e.Number = lock.Key, lock.Space, lock.Objsubid, lock.Number
	e.DatabaseOID, e.Database = lock.DatabaseOID, lock.Database
	return e
}

// by makes it an event of a session.
func (e Event) by(p Party) Event {
	e.Session = &p
	e.Code = p.Code
	return e
}

// waited says how long a wait lasted that ended before the event.
func (e Event) waited(since *time.Time) Event {
	if since == nil {
		return e
	}
	seconds := max(0, e.At.Sub(*since).Seconds())
	e.WaitingSince, e.WaitedSeconds = since, &seconds
	return e
}
