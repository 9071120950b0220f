package cli

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// recordFlags are the flags that say what to record, and where.
type recordFlags struct {
	path    string
	queries bool
	size    int64 // megabytes
}

func (r *recordFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.path, "record", "", "record all snapshots in `FILE`")
	flags.BoolVar(&r.queries, "record-queries", false, "record the texts of statements too")
	flags.Int64Var(&r.size, "record-size", 1000, "keep at most `MB` megabytes: the oldest files are removed")
	completeToFiles(cmd, "record")
}

func (r *recordFlags) check(cmd *cobra.Command, once bool) error {
	changed := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case changed("record") && r.path == "":
		return misuse(cmd, "--record is empty")
	case changed("record") && once:
		return misuse(cmd, "--record contradicts --once")
	case r.path == "" && changed("record-size"):
		return misuse(cmd, "--record-size needs --record")
	case r.size <= 0:
		return misuse(cmd, "--record-size must be more than 0")
	}
	return nil
}

// recorder records snapshots: in a file, in memory for the page, or both. A nil recorder records nothing.
type recorder struct {
	queries bool
	memory  *recording.Memory // nil without a page

	mu     sync.Mutex
	writer *recording.Writer // nil without a file
	failed error             // the error of the last attempt to write
	lost   bool              // an outage was recorded since the last snapshot
}

// maxPast is how many bytes of recordings are kept in memory.
const maxPast = 64 << 20

// beginRecording begins a recording: in a file if --record names one, and with a page in memory.
func (m *watch) beginRecording(target string) (*recorder, error) {
	k := &recorder{queries: m.record.queries}
	if m.http.address != "" {
		k.memory = recording.NewMemory(maxPast)
	}
	if m.record.path == "" {
		return k, nil
	}
	var err error
	k.writer, err = recording.NewWriter(m.record.path, recording.WriterOptions{
		About: recording.About{Program: "pglock " + moduleVersion(), Target: target, Queries: m.record.queries,
			Interval: time.Duration(m.interval).Seconds()},
		MaxSize: m.record.size << 20,
	})
	if err != nil {
		return nil, &exit{codeOther, err}
	}
	return k, nil
}

// add records a snapshot. A failure is reported once, and the next snapshot is a new attempt.
func (k *recorder) add(s *monitor.Snapshot, ended []int32) {
	if k == nil || k.memory == nil && k.writer == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
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
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost || k.writer == nil {
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
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.failed, k.writer.Close())
}

// printErrors records or tells of events, and prints only errors.
func (m *watch) printErrors(ctx context.Context, db database, o *observer, filter view.Filter) error {
	if m.record.path != "" {
		say(os.Stderr, "recording %s in %s", db.target, m.record.path)
	} else {
		say(os.Stderr, "watching %s", db.target)
	}
	return m.follow(ctx, db, o, filter, &printer{db: db})
}
