// Package recording writes the snapshots of package monitor to files, and reads them back.
//
// A recording has every snapshot: the first of each minute whole, in a keyframe, and the others as differences. So the
// journal and the views of a recording are the same as those at the time of the recording. [Writer] writes files, [Open]
// reads them, and [Past] finds a time in several of them. docs/recording.md describes the format.
//
// Two parts of a snapshot are less exact in a recording: the ages of transactions (XminAge, XIDAge) and the sessions with
// the most locks (Capacity.Top) are those of the keyframe. Statement texts are left out unless the encoder has the option
// [Queries]. What remains of a statement are the [KeptTags] of its sqlcommenter comment, and whether it takes an advisory
// lock.
package recording

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Version is the version of the format. Readers refuse files of a later version. Within a version only new types of
// frames can be added, which older readers skip.
const Version = 1

// magic begins every file; the version follows in a byte.
const magic = "PGLOCKR"

// Type is the type of a frame.
type Type byte

const (
	// TypeStart is the first frame of a file. It describes the recorder and the server.
	TypeStart Type = 1
	// TypeKey is a whole snapshot.
	TypeKey Type = 2
	// TypeDelta is a snapshot as differences from the one before.
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
	maxFrame        = 32 << 20 // bytes of a frame, compressed
	maxBody         = 32 << 20 // bytes of a snapshot frame's body
	maxSessions     = 100_000
	maxLocks        = 400_000
	maxParticipants = 400_000   // holders and waiters of all locks
	maxDerived      = 2_000_000 // blockers of all waiters
	maxStrings      = 1_000_000
	maxText         = 32 << 20 // bytes of the strings since the last keyframe
)

// keyframeEvery is the longest time between two keyframes.
const keyframeEvery = 55 * time.Second

// jump is the difference between two clocks, from one snapshot to the next, that counts as a jump. For the server's clock,
// which is read over the network, the time between three snapshots is added.
const jump = time.Second

// ErrCorrupt is matched by errors about a file that is damaged or not a recording. Everything before the damage has been
// returned.
var ErrCorrupt = errors.New("the recording is corrupt")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// About is the content of a Start frame.
type About struct {
	// Program is the recording program with its version. Target is the server as the user named it, without the password.
	Program string `json:"program"`
	Target  string `json:"target"`
	// Started is when the file was created, by the recorder's clock.
	Started time.Time `json:"started"`
	// Queries says that statement texts are recorded.
	Queries bool `json:"queries"`
	// Interval is the intended time between two snapshots, in seconds.
	Interval float64 `json:"interval_seconds"`
}

// Outage is the content of a Gap frame.
type Outage struct {
	// Wall is when the outage was noticed, by the recorder's clock.
	Wall   time.Time `json:"wall"`
	Reason string    `json:"reason"`
}

// endings is the content of an Ended frame.
type endings struct {
	PIDs []int32 `json:"pids"`
}

// ClockJump is the content of a Clock frame. Both clocks are compared with a monotonic clock.
type ClockJump struct {
	// Clock is "server" or "recorder".
	Clock string `json:"clock"`
	// Seconds is how far it jumped; negative if it went back.
	Seconds float64 `json:"seconds"`
	// Server and Wall are the two clocks after the jump.
	Server time.Time `json:"server"`
	Wall   time.Time `json:"wall"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
