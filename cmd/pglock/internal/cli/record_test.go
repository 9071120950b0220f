package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// recorded records a session that waits for another, and gets the lock when the other has ended.
func recorded(t *testing.T, args ...string) (file string, a, b int32) {
	t.Helper()
	db := testenv.Database(t)
	holder, waiter := db.Connect(t), db.Connect(t)
	_, err := holder.Exec(context.Background(),
		"SET application_name = 'nightly'; SELECT pg_advisory_lock(42) /*controller='reports',action='nightly'*/")
	must.Succeed(t, err)
	file = filepath.Join(t.TempDir(), "locks.rec")
	p := on(t, db, append([]string{"watch", "--record", file, "--interval", "200ms"}, args...)...).start()
	p.waitForOutput("recording ")
	got := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(),
			"SELECT pg_advisory_lock(42) /*controller='orders',action='pay',secret='s3cret'*/")
		got <- err
	}()
	db.WaitForWaiters(t, 1)
	awaitSnapshots(t, file)
	must.Succeed(t, holder.Close(context.Background()))
	must.Succeed(t, <-got)
	awaitSnapshots(t, file)
	_, err = waiter.Exec(context.Background(), "SELECT pg_advisory_unlock(42)")
	must.Succeed(t, err)
	p.signal(os.Interrupt)
	r := p.end()
	wantCode(t, r, 0)
	return file, int32(holder.PgConn().PID()), int32(waiter.PgConn().PID())
}

// awaitSnapshots waits until the file has a snapshot that was begun after the call. That is the second one: the first may
// have been under way.
func awaitSnapshots(t *testing.T, file string) {
	t.Helper()
	want := countSnapshots(t, file, math.MaxInt) + 2
	testenv.WaitUntil(t, "the recording has further snapshots", func() bool { return countSnapshots(t, file, want) >= want })
}

// countSnapshots counts the snapshots of a recording that is being written, until there are so many.
func countSnapshots(t *testing.T, file string, most int) (n int) {
	t.Helper()
	past, err := recording.OpenPast(file)
	if errors.Is(err, recording.ErrCorrupt) {
		return 0 // the recorder has not written anything yet
	}
	must.Succeed(t, err)
	for frame, err := range past.Play(time.Time{}) {
		must.Succeed(t, err)
		if frame.Snapshot != nil {
			n++
		}
		if n >= most {
			break
		}
	}
	return n
}

func TestReplayAnswersFromTheRecordingOnly(t *testing.T) {
	t.Parallel()
	file, _, waiter := recorded(t)
	r := command(t, nil, "replay", file, "--events").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "@42: ", " waits, blocked by ", "nightly (held ≥ ", "@42: passed from ", "(session ended)", "session ended: ")
	r = command(t, nil, "replay", file, "-o", "ndjson").run()
	wantCode(t, r, 0)
	if strings.Contains(r.stdout, "s3cret") || strings.Contains(r.stdout, "pg_advisory_lock") {
		t.Error("a statement was recorded")
	}
	var waited *monitor.Snapshot
	for line := range strings.Lines(r.stdout) {
		var s monitor.Snapshot
		must.Succeed(t, json.Unmarshal([]byte(line), &s))
		for w := range s.Waits() {
			if w.PID == waiter { // other tests use the same server
				waited = &s
			}
		}
	}
	if waited == nil {
		t.Fatal("no snapshot has the wait")
	}
	r = command(t, nil, "replay", file, "-o", "json", "--at", waited.TakenAt.Format("2006-01-02T15:04:05.999999Z07:00")).run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, `"waiting_since"`, `"application": "nightly"`, `"seen_since": "20`)
	r = command(t, nil, "replay", file, "--at", waited.TakenAt.Format("2006-01-02T15:04:05.999999Z07:00")).run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "held ≥ ", ", seen since ", ": frees 1")
	if strings.Contains(r.stdout, "pglock terminate") { // the session may be gone by now
		t.Errorf("a snapshot of the past suggests a command:\n%s", r.stdout)
	}
	r = command(t, nil, "replay", file, "--at", "1999-01-01 00:00").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "the recording covers")
}

func TestReplayRecordWithQueriesHasStatements(t *testing.T) {
	t.Parallel()
	file, _, _ := recorded(t, "--record-queries")
	r := command(t, nil, "replay", file, "-o", "ndjson").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "s3cret")
	r = command(t, nil, "replay", file, "--events").run()
	wantText(t, r.stdout, " waits (statement: SELECT pg_advisory_lock(42) /*controller='orders'", "(session ended), statement: SELECT ")
}

func TestReplayRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x")
	must.Succeed(t, os.WriteFile(file, []byte("PGDMP and so on"), 0o600))
	for _, path := range []string{file, file + "-missing"} {
		r := command(t, nil, "replay", path).run()
		wantCode(t, r, 1)
		wantText(t, r.stderr, "recording")
	}
}
