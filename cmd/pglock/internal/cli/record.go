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
	age     seconds
	keep    int
}

func (r *recordFlags) addTo(cmd *cobra.Command) {
	r.age = seconds(24 * time.Hour)
	flags := cmd.Flags()
	flags.StringVar(&r.path, "record", "", "record all snapshots in `FILE`")
	flags.BoolVar(&r.queries, "record-queries", false, "record the texts of statements too")
	flags.Int64Var(&r.size, "record-size", 100, "start a new file after `MB` megabytes")
	flags.Var(&r.age, "record-age", "start a new file after this `duration`")
	flags.IntVar(&r.keep, "record-keep", 0, "keep `N` earlier files; 0 keeps all")
	if err := cmd.MarkFlagFilename("record"); err != nil {
		panic(err) // the flag was not added before
	}
}

func (r *recordFlags) check(cmd *cobra.Command, once bool) error {
	changed := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case changed("record") && r.path == "":
		return misuse(cmd, "--record is empty")
	case changed("record") && once:
		return misuse(cmd, "--record contradicts --once")
	case r.path == "" && (changed("record-size") || changed("record-age") || changed("record-keep")):
		return misuse(cmd, "--record-size, --record-age and --record-keep need --record")
	case r.size <= 0 || r.age <= 0 || r.keep < 0:
		return misuse(cmd, "--record-size and --record-age must be more than 0, --record-keep 0 or more")
	}
	return nil
}

// recorder records snapshots. A nil recorder records nothing.
type recorder struct {
	mu      sync.Mutex
	encoder *recording.Encoder
	writer  *recording.Writer // nil if nothing is written to a file
	past    *recording.Past   // nil if nothing is kept in memory
	failed  error             // the error of the last attempt to write
	lost    bool              // an outage was recorded since the last snapshot
}

// maxPast is how many bytes of recordings are kept in memory.
const maxPast = 64 << 20

// beginRecording begins a recording: in a file if --record names one, and with a page in memory.
func (m *watch) beginRecording(target string) (*recorder, error) {
	path := m.record.path
	past, err := m.http.past(path)
	if err != nil {
		return nil, err
	}
	k := &recorder{encoder: recording.NewEncoder(m.record.queries), past: past}
	if path == "" {
		return k, nil
	}
	k.writer, err = recording.NewWriter(path, recording.WriterOptions{
		About: recording.About{Program: "pglock " + moduleVersion(), Target: target, Queries: m.record.queries,
			Interval: time.Duration(m.interval).Seconds()},
		MaxSize: m.record.size << 20, MaxAge: time.Duration(m.record.age), Keep: m.record.keep,
	})
	if err != nil {
		return nil, errors.Join(&exit{codeOther, err}, k.close())
	}
	return k, nil
}

// add records a snapshot. A failure is reported once, and the next snapshot is a new attempt.
func (k *recorder) add(s *monitor.Snapshot, ended []int32) {
	if k == nil || k.writer == nil && k.past == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = false
	k.report(k.record(s, ended))
}

func (k *recorder) record(s *monitor.Snapshot, ended []int32) error {
	if k.writer != nil && k.writer.Due() {
		err := k.writer.Rotate()
		k.encoder.Restart()
		if err != nil {
			return err
		}
	}
	encoded, err := k.encoder.Snapshot(s, ended)
	if err != nil {
		return err
	}
	if k.past != nil {
		k.past.Add(encoded, maxPast)
	}
	if k.writer == nil {
		return nil
	}
	if err := k.writer.Write(encoded); err != nil {
		k.encoder.Restart()
		return err
	}
	return nil
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
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.past != nil {
		_ = k.past.Close() // it was only read
	}
	if k.writer == nil {
		return nil
	}
	return errors.Join(k.failed, k.writer.Close())
}

// printErrors records or tells of events, and prints only errors.
func (m *watch) printErrors(ctx context.Context, db database, o *observer, filter view.Filter) error {
	if m.record.path != "" {
		say(os.Stderr, "recording %s in %s", db.target, m.record.path)
	} else {
		say(os.Stderr, "watching %s", db.target)
	}
	return m.follow(ctx, db, o, filter, newAppender(db, nil))
}
