// Package recording writes the snapshots of package monitor to files, and reads them back.
//
// A file is compressed with zstd. Its content is a line of JSON for each snapshot, as "pglock monitor -o ndjson" prints
// it, between lines about what a snapshot does not say: the recording at the beginning, sessions that have ended, and
// outages. What is recorded can be read at once, also if the recorder is killed.
//
// A file has at most 256 MB of such content, so a moment is found by reading the file that has it from its beginning.
//
// Texts that are read are printable. Statement texts are left out unless they are wanted.
package recording

import (
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Version is the version of the format. Readers refuse files of a later version.
const Version = 1

// Limits that bound what reading costs, whatever a file contains. A snapshot beyond them is not recorded, and a file ends
// before it reaches maxContent. The tests lower them.
var (
	maxContent int64 = 256 << 20 // bytes of a file before compression
	maxLine          = 64 << 20  // bytes of a line
	maxObjects       = 200_000   // JSON objects of a line: a lock, a holder, a waiter and a blocker are one each
)

const maxWindow = 16 << 20 // bytes that the compression looks back

var (
	// ErrCorrupt is matched by errors about a file that is damaged or not a recording.
	ErrCorrupt = errors.New("the recording is corrupt")
	// ErrTooLarge is matched by errors about a snapshot that is larger than a recording may have.
	ErrTooLarge = errors.New("the snapshot is too large for a recording")

	errVersion = errors.New("the recording is of a newer pglock")
)

// slack is how much later than two intervals the first snapshot of a file can be, if one recorder wrote it and the file before.
const slack = 2 * time.Second

// About is the content of a file's first line.
type About struct {
	// Version is filled in by a [Writer].
	Version int `json:"recording"`
	// Program is the recording program with its version. Target is the server as the user named it, without the password.
	Program string `json:"program"`
	Target  string `json:"target"`
	// Started is when the file was created, by the recorder's clock. A [Writer] fills it in.
	Started time.Time `json:"started"`
	// Queries says that statement texts are recorded.
	Queries bool `json:"queries"`
	// Interval is the intended time between two snapshots, in seconds.
	Interval float64 `json:"interval_seconds"`
}

// Frame is what is read from a recording: a snapshot or an outage.
type Frame struct {
	Snapshot *monitor.Snapshot
	// Ended are the process IDs of sessions that had ended by the time of the snapshot.
	Ended []int32

	Outage *Outage
}

// Outage says that there was no snapshot, and why. A reader also makes one of the time between two recorders.
type Outage struct {
	// Wall is when the outage was noticed, by the recorder's clock. It is zero for an outage that a reader makes.
	Wall   time.Time `json:"wall"`
	Reason string    `json:"reason"`
}
