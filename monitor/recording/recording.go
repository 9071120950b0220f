// Package recording keeps the snapshots of package monitor in files, and reads them back.
//
// A recording has every snapshot: the first of each minute whole, in a keyframe, and the others as what has changed.
// So package journal computes from it, and views show, the same as at the time of the recording. [Writer] writes
// files, [Open] reads them, [Past] finds a moment in several of them. The format is described in docs/recording.md.
//
// Two things of a snapshot are less exact in a recording: the ages of transactions (XminAge, XIDAge) and the sessions that
// fill the lock table (Capacity.Top) are those of the keyframe. Statement texts are left out unless the writer is
// given [Queries]; what remains are the [KeptTags] of a statement's sqlcommenter comment, and whether it takes an
// advisory lock.
package recording

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Version is the version of the format. Readers refuse files of a later one. Within a version only new types of
// frames are added, which older readers skip.
const Version = 1

// magic begins every file; the version follows in a byte.
const magic = "PGLOCKR"

// Type is the type of a frame.
type Type byte

const (
	// TypeStart says who records what; it is the first frame of a file.
	TypeStart Type = 1
	// TypeKey is a whole snapshot.
	TypeKey Type = 2
	// TypeDelta is what has changed since the snapshot before.
	TypeDelta Type = 3
	// TypeGap says that there was no snapshot, and why.
	TypeGap Type = 4
	// TypeClock says that the clock of the server or of the recorder has jumped.
	TypeClock Type = 5
	// TypeEnded names sessions that were found to have ended by the snapshot that follows.
	TypeEnded Type = 6
	// TypeEnd is the last frame of a file that was properly closed.
	TypeEnd Type = 7
)

// Limits that bound what a reader allocates, whatever a file contains. A writer keeps to them.
const (
	maxFrame    = 32 << 20 // bytes of a frame, compressed
	maxBody     = 32 << 20 // bytes of a snapshot frame's body
	maxSessions = 100_000
	maxLocks    = 400_000
	maxPeople   = 400_000   // holders and waiters of all locks
	maxDerived  = 2_000_000 // blockers of all waiters
	maxStrings  = 1_000_000
	maxText     = 32 << 20 // bytes of the strings since the last keyframe
)

// keyframeEvery is the most time between two keyframes.
const keyframeEvery = 55 * time.Second

// jump is by how much a clock must go wrong between two snapshots to have jumped; the server's, which is read from afar, by
// that and the time between three snapshots.
const jump = time.Second

// ErrCorrupt is matched by errors about a file that no writer wrote: another kind of file, or a damaged one.
// Everything before the damage has been returned.
var ErrCorrupt = errors.New("the recording is corrupt")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// About is what a Start frame says.
type About struct {
	// Program is what records, with its version, and Target the server as the user named it, without the password.
	Program string `json:"program"`
	Target  string `json:"target"`
	// Started is when the file was begun, by the recorder's clock.
	Started time.Time `json:"started"`
	// Queries says that statement texts are recorded.
	Queries bool `json:"queries"`
	// Interval is the intended time between two snapshots, in seconds.
	Interval float64 `json:"interval_seconds"`
}

// Outage is what a Gap frame says.
type Outage struct {
	// Wall is when it was noticed, by the recorder's clock.
	Wall   time.Time `json:"wall"`
	Reason string    `json:"reason"`
}

// endings is what an Ended frame says.
type endings struct {
	PIDs []int32 `json:"pids"`
}

// ClockJump is the content of a Clock frame. Both clocks are compared with a clock that cannot be set.
type ClockJump struct {
	// Clock is "server" or "recorder".
	Clock string `json:"clock"`
	// Seconds is by how much it went forward, or back if it is negative.
	Seconds float64 `json:"seconds"`
	// Server and Wall are the two clocks after the jump.
	Server time.Time `json:"server"`
	Wall   time.Time `json:"wall"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
