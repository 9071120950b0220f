package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/monitor"
)

// queue makes another session wait for a lock until the test ends.
func queue(t *testing.T, db *testenv.DB, statement string) {
	t.Helper()
	db.Queue(t, db.Connect(t), statement)
}

// gid returns an identifier that is unique to the test, with a character that a table must escape.
func gid(db *testenv.DB) string { return "the \x07gid's " + db.Name()[len(db.Name())-12:] }

// prepare leaves a prepared transaction behind until the test ends.
func prepare(t *testing.T, db *testenv.DB, statement, gid string) {
	t.Helper()
	quoted := "'" + strings.ReplaceAll(gid, "'", "''") + "'"
	execute(t, db, "BEGIN; "+statement+"; PREPARE TRANSACTION "+quoted)
	t.Cleanup(func() { execute(t, db, "ROLLBACK PREPARED "+quoted) })
}

func parse(t *testing.T, text string) *monitor.Snapshot {
	t.Helper()
	var snapshot monitor.Snapshot
	if err := json.Unmarshal([]byte(text), &snapshot); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return &snapshot
}

func TestMonitorKeysChooseWhatIsShown(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	execute(t, db, "SELECT pglock.register('invoice:42')")
	hold(t, db, "SELECT pg_advisory_lock(pglock.key('invoice:42')), pg_advisory_lock(7, -42)")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--key", "invoice:42"}, []string{"invoice:42"}},
		{[]string{"--key", "@6688477336110245193", "--key", "@7/-42"}, []string{"invoice:42", "@7/-42"}},
		{[]string{"--key", "@7"}, nil},
	} {
		r := on(t, db, append([]string{"monitor", "--once", "-o", "json"}, test.args...)...).run()
		if r.stderr != "" {
			t.Errorf("cron would send by mail %q", r.stderr)
		}
		snapshot := parse(t, r.stdout)
		var got []string
		for _, lock := range snapshot.Locks {
			if lock.Database == db.Name() {
				got = append(got, lock.Key)
			}
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%q shows %q, want %q", test.args, got, test.want)
		}
	}
}

func TestMonitorNeedsAServerAtFirst(t *testing.T) {
	t.Parallel()
	nowhere := []string{"DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/x"}
	for _, args := range [][]string{{"monitor"}, {"monitor", "--once"}, {"monitor", "--once", "-o", "json"}} {
		r := command(t, nowhere, args...).run()
		wantCode(t, r, 69)
		wantText(t, r.stderr, "u@127.0.0.1:1/x")
		if r.stdout != "" {
			t.Errorf("stdout is %s", r.stdout)
		}
	}
	for _, args := range [][]string{{"--interval", "0"}, {"--interval", "-1"}, {"--interval", "soon"}, {"--output", "xml"},
		{"--key", ""}, {"--key", "@x"}, {"k", "l"}, {"u:p@h/x"}} {
		wantCode(t, command(t, nowhere, append([]string{"monitor"}, args...)...).run(), 64)
	}
}
