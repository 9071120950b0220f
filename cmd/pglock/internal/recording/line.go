package recording

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The kinds of lines. All lines of a member belong to its snapshot.
const (
	kindStart        = "start"    // the first line of a file
	kindSnapshot     = "snapshot" // the first line of a snapshot
	kindClock        = "clock"
	kindGap          = "gap"
	kindServer       = "server" // replaces the lines from here to kindRowLock
	kindCycle        = "cycle"
	kindOtherWait    = "other_wait"
	kindOtherSession = "other_session"
	kindRowLock      = "row_lock"
	kindTop          = "top"
	kindGone         = "gone"
	kindSession      = "session"
	kindState        = "state"
	kindLock         = "lock"
)

type startLine struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	About
}

type gapLine struct {
	Kind string `json:"kind"`
	Outage
}

type snapshotLine struct {
	Kind      string    `json:"kind"`
	At        time.Time `json:"at"`
	Keyframe  bool      `json:"keyframe,omitempty"`
	Waiters   int       `json:"waiters,omitempty"`
	Deadlocks int       `json:"deadlocks,omitempty"`
	Longest   float64   `json:"longest_seconds,omitempty"`
	Used      int64     `json:"used,omitempty"` // of the lock table
	Advisory  int64     `json:"advisory,omitempty"`
	Ended     []int32   `json:"ended,omitempty"`
}

// clockLine says that a clock has jumped, compared with a monotonic clock.
type clockLine struct {
	Kind    string    `json:"kind"`
	Clock   string    `json:"clock"` // "server" or "recorder"
	Seconds float64   `json:"seconds"`
	Server  time.Time `json:"server"`
	Wall    time.Time `json:"wall"`
}

// serverLine has the fields of a snapshot that are not in other lines. The fields here hide those of the snapshot.
type serverLine struct {
	Kind string `json:"kind"`
	monitor.Snapshot
	TakenAt       hidden `json:"taken_at,omitzero"`
	Cycles        hidden `json:"cycles,omitzero"`
	Locks         hidden `json:"locks,omitzero"`
	OtherWaits    hidden `json:"other_waits,omitzero"`
	OtherSessions hidden `json:"other_sessions,omitzero"`
	RowLocks      hidden `json:"row_locks,omitzero"`
}

// hidden is a field that is neither written nor read.
type hidden struct{}

func (*hidden) UnmarshalJSON([]byte) error { return nil }

type cycleLine struct {
	Kind string `json:"kind"`
	monitor.Cycle
}

type topLine struct {
	Kind string `json:"kind"`
	monitor.SessionLoad
}

type otherWaitLine struct {
	Kind string            `json:"kind"`
	Lock monitor.OtherLock `json:"lock"`
	waiter
}

type otherSessionLine struct {
	Kind    string `json:"kind"`
	Session int    `json:"session"`
}

// goneLine names the sessions and locks that are no longer there.
type goneLine struct {
	Kind     string `json:"kind"`
	Sessions []int  `json:"sessions,omitempty"`
	Locks    []int  `json:"locks,omitempty"`
}

type sessionLine struct {
	Kind string `json:"kind"`
	ID   int    `json:"id"`
	monitor.Session
}

// stateLine has the fields of a session that often change.
type stateLine struct {
	Kind             string     `json:"kind"`
	Session          int        `json:"session"`
	State            string     `json:"state"`
	StateSince       *time.Time `json:"state_since,omitempty"`
	TransactionSince *time.Time `json:"transaction_since,omitempty"`
	WaitEventType    string     `json:"wait_event_type,omitempty"`
	WaitEvent        string     `json:"wait_event,omitempty"`
	Query            *string    `json:"query,omitempty"` // if it has changed
}

// lockLine is a lock with all its holders and waiters, or with More, further ones of the line before.
type lockLine struct {
	Kind        string   `json:"kind"`
	ID          int      `json:"id"`
	More        bool     `json:"more,omitempty"`
	Key         string   `json:"key,omitempty"`
	Database    string   `json:"database,omitempty"`
	DatabaseOID uint32   `json:"database_oid,omitempty"`
	Lock        *label   `json:"lock,omitempty"` // unless it follows from the fields above
	Holders     []holder `json:"holders,omitempty"`
	Waiters     []waiter `json:"waiters,omitempty"`
}

// label is a lock without its holders and waiters.
type label struct {
	monitor.Lock
	Holders hidden `json:"holders,omitzero"`
	Waiters hidden `json:"waiters,omitzero"`
}

type holder struct {
	Session int          `json:"session"`
	Mode    monitor.Mode `json:"mode"`
}

type waiter struct {
	Session   int          `json:"session"`
	Mode      monitor.Mode `json:"mode"`
	Since     *time.Time   `json:"since,omitempty"`
	Estimated bool         `json:"estimated,omitempty"`
	// BlockedBy is nil if the blockers are the derivedBlockers.
	BlockedBy *[]monitor.Blocker `json:"blocked_by,omitempty"`
}

// plainLock returns the lock of a key of which nothing else is known.
func plainLock(key, database string, oid uint32) (lock monitor.Lock, err error) {
	k, err := pglock.ParseKey(key)
	if err != nil {
		return lock, corrupt("%v", err)
	}
	lock = monitor.Lock{Key: key, Names: []string{}, Guesses: []monitor.Guess{}, Kind: monitor.KindLock, Space: monitor.SpaceBigint,
		Objsubid: int16(driver.SpaceBigint), Number: k.Int64(), DatabaseOID: oid, Database: database}
	if name := k.Name(); name != "" {
		lock.Names = []string{name}
	}
	if _, _, pair := k.Pair(); pair {
		lock.Space, lock.Objsubid = monitor.SpacePair, int16(driver.SpacePair)
	}
	lock.Class, lock.Object = int32(lock.Number>>32), int32(lock.Number)
	lock.ClassID, lock.ObjectID = uint32(lock.Class), uint32(lock.Object)
	return lock, nil
}

// lines is the content of a member.
type lines struct {
	bytes.Buffer
	err error
}

func (l *lines) add(line any) {
	encoder := json.NewEncoder(l)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil && l.err == nil {
		l.err = err
	}
}

// pack returns the lines as a member. Characters that a terminal could interpret are written as escapes.
func (l *lines) pack(m mark) ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	return pack(m, view.Escaped(l.Bytes()))
}
