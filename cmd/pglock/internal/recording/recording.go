// Package recording writes the snapshots of package monitor to files, and reads them back.
//
// A file consists of gzip members, one after another, and its content is JSON, a value on each line. A member has one
// snapshot. The first of each minute is whole, in a keyframe, and the others are the differences from the one before.
// The header of a member has its length, so a time is found without inflating what comes before. docs/recording.md
// describes the format.
//
// Every snapshot is recorded, so the journal and the views of a recording are the same as those at the time of the
// recording. Two parts of a snapshot are less exact: the ages of transactions (XminAge, XIDAge) and the sessions with the
// most locks (Capacity.Top) are those of the keyframe. Bytes that are not UTF-8 become escapes such as \xff. Statement texts are left
// out unless they are wanted. What remains of a statement are the [KeptTags] of its sqlcommenter comment, and whether it
// takes an advisory lock.
package recording

import (
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Version is the version of the format. Readers refuse files of a later version. Within a version only new fields and new
// kinds of lines can be added, which older readers skip.
const Version = 1

// keyframeEvery is the longest time between two keyframes.
const keyframeEvery = 55 * time.Second

// jump is the difference between two clocks, from one snapshot to the next, that counts as a jump. For the server's clock,
// which is read over the network, the time between three snapshots is added.
const jump = time.Second

// slack is how much later than two intervals the first snapshot of a file can be, if one recorder wrote it and the file before.
const slack = 2 * time.Second

// ErrCorrupt is matched by errors about a file that is damaged or not a recording.
var ErrCorrupt = errors.New("the recording is corrupt")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// ErrTooLarge is matched by errors about a recording that needs more memory or work than its reader allows.
var ErrTooLarge = errors.New("the recording is too large to be read safely")

// About is the content of a file's first line.
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

// Info is what a timeline shows of a snapshot.
type Info struct {
	// At is the server's clock.
	At time.Time
	// The number of waiters and of certain deadlocks in the snapshot, and its longest wait.
	Waiters   int
	Deadlocks int
	Longest   time.Duration
}

// Frame is what is read from a recording: a snapshot or an outage.
type Frame struct {
	Snapshot *monitor.Snapshot
	// Ended are the process IDs of sessions that had ended by the time of the snapshot.
	Ended []int32

	Outage *Outage

	start *About // of a line that begins a file
}

// Outage says that there was no snapshot, and why. A reader also makes one of the time between two recorders.
type Outage struct {
	// Wall is when the outage was noticed, by the recorder's clock. It is zero for an outage that a reader makes.
	Wall   time.Time `json:"wall"`
	Reason string    `json:"reason"`
}
