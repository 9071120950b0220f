package cli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// queue makes another session wait for a lock until the test ends.
func queue(t *testing.T, db *testenv.DB, statement string) {
	t.Helper()
	db.Queue(t, db.Connect(t), statement)
}

var longName = "a-name-that-is-longer-than-any-line-" + strings.Repeat("x", 200)

// fillDatabase fills the database with all kinds of holders and waiters.
func fillDatabase(t *testing.T, db *testenv.DB) {
	t.Helper()
	execute(t, db, "SELECT pglock.register('invoice:42', E'line\none', $1)", longName)
	hold(t, db, "SELECT /*\x1b[2J\x07\n\t\u009b\u202e*/ pg_advisory_lock(pglock.key('invoice:42'))")
	hold(t, db, "BEGIN; SELECT pg_advisory_xact_lock_shared(7, -42)")
	hold(t, db, "SELECT pg_advisory_lock_shared(7, -42)")
	hold(t, db, "SELECT pg_advisory_lock(pglock.key(E'line\none'))")
	hold(t, db, "SELECT pg_advisory_lock(pglock.key(name)) FROM pglock.names WHERE name LIKE 'a-name%'")
	hold(t, db, "SELECT pg_advisory_lock(-9223372036854775808), pg_advisory_lock(9223372036854775807)")
	for range 3 {
		queue(t, db, "SELECT pg_advisory_xact_lock(pglock.key('invoice:42'))")
	}
	queue(t, db, "SELECT pg_advisory_lock(7, -42)")
	queue(t, db, "SELECT pg_advisory_lock_shared(7, -42)")
	prepare(t, db, "SELECT pg_advisory_xact_lock(99)", gid(db))
	queue(t, db, "SELECT pg_advisory_lock(99)")
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

func TestMonitorSaysWhatTheServerSays(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	fillDatabase(t, db)
	r := on(t, db, "monitor", "--once", "--output", "json").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, `"database": "`+db.Name()+`"`)
	if r.stderr != "" {
		t.Errorf("cron would send by mail %q", r.stderr)
	}
	snapshot := parse(t, r.stdout)

	var locks []string
	for _, lock := range locksOf(db, snapshot) {
		locks = append(locks, lock.String())
	}
	var want []string
	for _, lock := range db.AdvisoryLocks(t) {
		want = append(want, lock.String())
	}
	wantEqual(t, "locks", locks, want)
	wantEqual(t, "numbers of blockers", blockersOf(db, snapshot), serverBlockers(t, db))
	if lock := snapshot.Locks[slices.IndexFunc(snapshot.Locks, func(l monitor.Lock) bool {
		return l.Key == "invoice:42"
	})]; lock.Number != 6688477336110245193 || len(lock.Waiters) != 3 || lock.Holders[0].PID == 0 {
		t.Errorf("invoice:42 is %+v", lock)
	}
}

func parse(t *testing.T, text string) *monitor.Snapshot {
	t.Helper()
	var snapshot monitor.Snapshot
	if err := json.Unmarshal([]byte(text), &snapshot); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return &snapshot
}

// locksOf turns a snapshot back into rows of pg_locks.
func locksOf(db *testenv.DB, s *monitor.Snapshot) (rows []testenv.Lock) {
	mode := map[string]string{"shared": "ShareLock", "exclusive": "ExclusiveLock"}
	for _, lock := range s.Locks {
		if lock.Database != db.Name() {
			continue
		}
		for _, h := range lock.Holders {
			rows = append(rows, testenv.Lock{
				Key: lock.Number, ObjSubID: lock.Objsubid, Mode: mode[h.Mode], Granted: true, PID: h.PID})
		}
		for _, w := range lock.Waiters {
			rows = append(rows, testenv.Lock{
				Key: lock.Number, ObjSubID: lock.Objsubid, Mode: mode[w.Mode], PID: w.PID})
		}
	}
	return rows
}

func blockersOf(db *testenv.DB, s *monitor.Snapshot) (waits []string) {
	for waiter := range s.Waits() {
		if waiter.Lock != nil && waiter.Lock.Database == db.Name() {
			hard := 0
			for _, b := range waiter.BlockedBy {
				if b.Kind == "hard" {
					hard++
				}
			}
			waits = append(waits, fmt.Sprintf("%d waits for %d, of which %d are ahead", waiter.PID, hard+waiter.Ahead, waiter.Ahead))
		}
	}
	return waits
}

func serverBlockers(t *testing.T, db *testenv.DB) []string {
	t.Helper()
	rows, err := db.Pool(t).Query(t.Context(), `
		SELECT format('%s waits for %s, of which %s are ahead', w.pid, count(b.pid), count(b.pid) - count(b.pid) FILTER (WHERE EXISTS (
			SELECT FROM pg_locks h WHERE h.locktype = 'advisory' AND h.granted AND coalesce(h.pid, 0) = b.pid
			AND (h.database, h.classid, h.objid, h.objsubid) = (w.database, w.classid, w.objid, w.objsubid)
			AND 'ExclusiveLock' IN (h.mode, w.mode))))
		FROM pg_locks w, LATERAL (SELECT DISTINCT unnest(pg_blocking_pids(w.pid)) AS pid) b
		WHERE w.locktype = 'advisory' AND NOT w.granted
		AND w.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		GROUP BY w.pid`)
	must.Succeed(t, err)
	pairs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Succeed(t, err)
	return pairs
}

func wantEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("the %s are\n  %s\nand the server says\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestMonitorTheTableFitsEightyColumnsAndIsHarmless(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	fillDatabase(t, db)
	narrow := on(t, db, "monitor", "--once", "--here") // many keys of other tests would fold those of this one
	narrow.Env = append(narrow.Env, "COLUMNS=80")
	r := narrow.run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "invoice:42 @66", "@7/-42 ", `line\none`, "'the \\agid's ", "@-92", " ~",
		"~ does not hold the lock, but waits for it ahead in the queue\n")
	for line := range strings.Lines(r.stdout) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u202e' }) {
			t.Errorf("a line that is not harmless: %q", line)
		}
	}
	wantText(t, on(t, db, "monitor", "--once", "--here").run().stdout, longName) // what does not go to a terminal is not cut
}

func TestMonitorWhatIsHiddenIsLabelled(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	hold(t, db, "SELECT pg_advisory_lock(7)")
	poor := []string{"DATABASE_URL=" + db.Role(t, "pglock_poor")}
	once := []string{"monitor", "--once", "--key", "@7"}
	r := command(t, poor, once...).run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "@7", "(hidden)", "names: schema pglock is not installed", "pglock migrate up",
		"hidden: role", "pg_read_all_stats")

	wantCode(t, on(t, db, "migrate", "up").run(), 0)
	wantText(t, command(t, poor, once...).run().stdout, "(hidden)", "names: role", "GRANT")
	owner := on(t, db, once...).run()
	if strings.Contains(owner.stdout, "(hidden)") || strings.Contains(owner.stdout, "names:") {
		t.Errorf("something is hidden from the owner:\n%s", owner.stdout)
	}
}

func TestMonitorKeysChooseWhatIsShown(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	fillDatabase(t, db)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--key", "invoice:42"}, []string{"invoice:42"}},
		{[]string{"--key", "@6688477336110245193", "--key", "@7/-42"}, []string{"invoice:42", "@7/-42"}},
		{[]string{"--key", "@7"}, nil},
	} {
		snapshot := parse(t, on(t, db, append([]string{"monitor", "--once", "-o", "json"}, test.args...)...).run().stdout)
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

// silentServer returns the URL of a server that accepts connections and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("postgres://u:s3cret@%s/x?connect_timeout=1", testenv.SilentServer(t))
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
	r := command(t, []string{"DATABASE_URL=" + silentServer(t)}, "monitor", "--once").run()
	wantCode(t, r, 69)
	for _, args := range [][]string{{"--interval", "0"}, {"--interval", "-1"}, {"--interval", "soon"}, {"--output", "xml"},
		{"--key", ""}, {"--key", "@x"}, {"k", "l"}, {"u:p@h/x"}} {
		wantCode(t, command(t, nowhere, append([]string{"monitor"}, args...)...).run(), 64)
	}
}
