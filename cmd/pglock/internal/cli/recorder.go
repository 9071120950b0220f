package cli

import (
	"errors"
	"os"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
)

// recorder records snapshots: in a file, or in memory for the page. A nil recorder records nothing.
type recorder struct {
	queries bool
	memory  *recording.Memory // nil without a page
	writer  *recording.Writer // nil without a file
	failed  error             // the error of the last attempt to write
	lost    bool              // an outage was recorded since the last snapshot
	rested  time.Time         // when the page's past takes the next snapshot
}

// rest is how many times as long the page's past rests as a snapshot of thousands of locks took it, and mostRest at most.
const rest, mostRest = 50, 10 * time.Second

// add records a snapshot. A failure is reported once, and the next snapshot is a new attempt.
func (k *recorder) add(s *monitor.Snapshot, ended []int32) {
	begun := time.Now()
	if k == nil || begun.Before(k.rested) {
		return
	}
	if k.writer == nil {
		defer func() { k.rested = begun.Add(min(rest*time.Since(begun), mostRest)) }()
	}
	k.lost = false
	line, err := recording.Encode(s, ended, k.queries)
	if err == nil && k.memory != nil {
		err = k.memory.Add(line)
	}
	if err == nil && k.writer != nil {
		err = k.writer.Add(line)
	}
	k.report(err)
}

// missed records that no snapshot could be taken, once per outage.
func (k *recorder) missed(err error) {
	if k == nil || k.lost || k.writer == nil {
		return
	}
	k.lost = true
	k.report(k.writer.Outage(oneLine(err.Error())))
}

func (k *recorder) report(err error) {
	if err != nil && k.failed == nil {
		say(os.Stderr, "%v; trying again", err)
	}
	k.failed = err
}

// close closes the recording.
func (k *recorder) close() error {
	if k == nil || k.writer == nil {
		return nil
	}
	return errors.Join(k.failed, k.writer.Close())
}
