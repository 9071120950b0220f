package cli_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// suggestedSession returns the PID@SINCE that a command without a terminal prints.
func suggestedSession(t testing.TB, r result) string {
	t.Helper()
	found := regexp.MustCompile(`pglock (?:terminate|cancel)(?: -d \S+)? (\S+) --yes`).FindStringSubmatch(r.stderr)
	if found == nil {
		t.Fatalf("no session is suggested in\n%s", r.stderr)
	}
	return found[1]
}

// held counts the advisory locks that a session holds.
func held(t testing.TB, db *testenv.DB, pid int32) (n int) {
	t.Helper()
	for _, lock := range db.AdvisoryLocks(t) {
		if lock.PID == pid && lock.Granted {
			n++
		}
	}
	return n
}

func TestSignalAScriptTerminatesASessionByItsReference(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	execute(t, db, "SELECT pglock.register('invoice:42', 'invoice:43')")
	pid := hold(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42')), pg_advisory_lock(pglock.key('invoice:43'))")
	queue(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42'))")

	shown := on(t, db, "terminate", fmt.Sprint(pid)).run()
	wantCode(t, shown, 64)
	wantText(t, shown.stderr, "It holds 2 locks; 1 session waits for them.", "invoice:42\n", "waits for", "invoice:43",
		"there is no terminal to ask on", "run pglock terminate ")
	if n := held(t, db, pid); n != 2 {
		t.Fatalf("the session holds %d locks", n)
	}
	session := suggestedSession(t, shown)
	r := on(t, db, "terminate", session, "--yes").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, fmt.Sprintf("session %d has ended: 1 lock is free, 1 lock passed to the next waiter\n", pid),
		"  invoice:42 is now held by ")
	wantText(t, r.stderr, `level=INFO msg="session signalled"`, "/"+db.Name(), "session="+session, "signal=terminate",
		"locks=2", "has ended: 1 lock is free, 1 lock passed")
	if n := held(t, db, pid); n != 0 {
		t.Errorf("the session holds %d locks", n)
	}
	again := on(t, db, "terminate", session, "--yes").run()
	wantCode(t, again, 66)
	wantText(t, again.stderr, ": cannot signal process ", "no such session")
	if strings.Contains(again.stderr, "monitor:") {
		t.Errorf("the message names a package: %s", again.stderr)
	}
}

func TestSignalCancellingAnIdleHolderSaysBeforeAndAfterThatItFreesNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pid := hold(t, db, "SELECT pg_advisory_lock(7)")
	shown := on(t, db, "cancel", fmt.Sprint(pid)).run()
	wantCode(t, shown, 64)
	wantText(t, shown.stderr, "there is no statement to cancel", "terminating does")
	dry := on(t, db, "cancel", fmt.Sprint(pid), "--dry-run").run()
	wantCode(t, dry, 0)
	if wantText(t, dry.stdout, "terminating does"); strings.Contains(dry.stdout, "--yes") {
		t.Errorf("it prints a command: %s", dry.stdout)
	}
	r := on(t, db, "cancel", suggestedSession(t, shown), "--yes").run()
	wantCode(t, r, 1)
	wantText(t, r.stdout, "so there was nothing to cancel:", "@7 is still held by it")
	if n := held(t, db, pid); n != 1 {
		t.Errorf("the session holds %d locks", n)
	}
}

// What frees none is no command, and what does is named.
func TestSignalAPreviewOfAMemberOfAQueueHasNoCommand(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	holder := hold(t, db, "SELECT pg_advisory_lock(7)")
	queue(t, db, "SELECT pg_advisory_lock(7)")
	queue(t, db, "SELECT pg_advisory_lock(7)")
	for _, waiter := range parse(t, on(t, db, "--once", "--key", "@7", "-o", "json").run().stdout).Locks[0].Waiters {
		for _, signal := range []string{"terminate", "cancel"} {
			r := on(t, db, signal, fmt.Sprint(waiter.PID), "--dry-run").run()
			wantCode(t, r, 0)
			if wantText(t, r.stdout, "frees none.\n", "The best action: "); strings.Contains(r.stdout, "--yes") {
				t.Errorf("it prints a command: %s", r.stdout)
			}
		}
	}
	wantText(t, on(t, db, "terminate", fmt.Sprint(holder), "--dry-run").run().stdout, "frees 1, then 1 more.", " --yes\n")
}

func TestSignalAMissingRightIsReported(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pid := hold(t, db, "SELECT pg_advisory_lock(7)")
	poor := []string{"DATABASE_URL=" + db.Role(t, "pglock_poor")}
	shown := command(t, poor, "terminate", fmt.Sprint(pid), "--dry-run").run()
	wantCode(t, shown, 77)
	wantText(t, shown.stdout, "It holds 1 lock")
	first := command(t, poor, "terminate", fmt.Sprint(pid)).run()
	wantCode(t, first, 77)
	for _, r := range []result{shown, first} {
		if wantText(t, r.stderr, "which only a superuser can signal"); strings.Contains(r.stdout+r.stderr, "--yes") {
			t.Errorf("it suggests a command: %s%s", r.stdout, r.stderr)
		}
	}
	if n := held(t, db, pid); n != 1 {
		t.Errorf("the session holds %d locks", n)
	}
}

func TestSignalInvalidTargetsOfSignals(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"terminate":               "expected one PID, or --holder",
		"cancel":                  "expected one PID",
		"terminate 1 2":           "expected one PID",
		"terminate 1 --holder x":  "expected one PID, or --holder",
		"terminate 0":             `"0": want a process ID`,
		"terminate x":             `"x": want a process ID`,
		"terminate 99999999999":   "want a process ID",
		"terminate 1 --yes":       "--yes needs PID@SINCE",
		"cancel 1@noon":           `"1@noon": want a process ID`,
		"terminate --read-only 1": "unknown flag: --read-only",
	} {
		r := command(t, nil, strings.Fields(line)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
	}
	r := command(t, []string{"DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/x"}, "terminate", "1").run()
	wantCode(t, r, 69)
	wantNoSecret(t, r)
}
