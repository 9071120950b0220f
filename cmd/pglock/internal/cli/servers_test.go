package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// unreachable is the address of a server that does not exist.
const unreachable = "postgres://u:s3cret@127.0.0.1:1/x"

// several prepares pglock for several servers.
func several(t testing.TB, dsns []string, args ...string) *process {
	t.Helper()
	for _, dsn := range dsns {
		args = append(args, "--dsn", dsn)
	}
	return command(t, nil, args...)
}

// label returns the label of the server of a connection string of the tests.
func label(connString string) string {
	_, place, _ := strings.Cut(connString, "@")
	place, _, _ = strings.Cut(place, "?")
	return place
}

// labelOf returns the label of the database in output about several servers.
func labelOf(db *testenv.DB) string { return label(db.ConnString()) }

// snapshotsOf reads snapshots from ndjson.
func snapshotsOf(t testing.TB, ndjson string) (all []monitor.Snapshot) {
	t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(ndjson))
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var s monitor.Snapshot
		must.Succeed(t, json.Unmarshal(scanner.Bytes(), &s))
		all = append(all, s)
	}
	must.Succeed(t, scanner.Err())
	return all
}

// Two servers, a standby and an unreachable server, in all formats.
func TestServersSeveralServersAtOnce(t *testing.T) {
	t.Parallel()
	quiet, busy := testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	a, b := testenv.On(t, quiet), testenv.On(t, busy)
	standby, err := busy.Standby(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, standby.Stop()) })
	hold(t, a, "SELECT pg_advisory_lock(1)")
	hold(t, b, "SELECT pg_advisory_lock(2)")
	queue(t, b, "SELECT pg_advisory_lock(2)")
	c := standby.ConnString("postgres")
	all := []string{a.ConnString(), b.ConnString(), c, unreachable}

	r := several(t, all, "monitor", "--once", "-o", "ndjson").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "u@127.0.0.1:1/x: ")
	wantNoSecret(t, r)
	snapshots := snapshotsOf(t, r.stdout)
	if len(snapshots) != 3 {
		t.Fatalf("there are %d snapshots:\n%s", len(snapshots), r.stdout)
	}
	for i, want := range []monitor.Server{
		{Host: "127.0.0.1", Port: int32(quiet.Port()), Label: labelOf(a)},
		{Host: "127.0.0.1", Port: int32(busy.Port()), Label: labelOf(b)},
		{Host: "127.0.0.1", Port: int32(standby.Port()), InRecovery: true, Label: label(c)},
	} {
		if snapshots[i].Server != want {
			t.Errorf("the server is %+v, want %+v", snapshots[i].Server, want)
		}
	}

	r = several(t, []string{unreachable, all[0]}, "monitor", "--once", "-o", "ndjson").run()
	wantCode(t, r, 69)
	if snapshots := snapshotsOf(t, r.stdout); len(snapshots) != 1 || snapshots[0].Server.Label != labelOf(a) {
		t.Errorf("a server that is not there hides another:\n%s", r.stdout)
	}

	r = several(t, all[:3], "monitor", "--once").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, " STANDBY")
	if worst, best := strings.Index(r.stdout, "/"+b.Name()), strings.Index(r.stdout, "/"+a.Name()); worst < 0 || worst > best {
		t.Errorf("the worst is not first:\n%s", r.stdout)
	}
	if strings.Contains(r.stdout, "seen since") {
		t.Errorf("one look says since when a holder was seen:\n%s", r.stdout)
	}

	r = several(t, all[:3], "monitor", "--once", "-o", "csv").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, ",objid,server\r\n", ","+labelOf(a)+"\r\n", ","+labelOf(b)+"\r\n")
	if strings.Count(r.stdout, "taken_at") != 1 {
		t.Errorf("the output must have one header:\n%s", r.stdout)
	}

	r = several(t, all, "monitor", "--once", "--fail-if-waiting", "0").run()
	wantCode(t, r, 2)
	wantText(t, r.stdout, "PGLOCK CRITICAL - "+labelOf(b)+" CRITICAL: ", "; 127.0.0.1:1/x UNKNOWN: ",
		"; "+labelOf(a)+" OK: Nothing waits. ", " | '"+labelOf(b)+" longest_wait'=")
	if strings.Count(r.stdout, "\n") != 1 || strings.Contains(r.stdout, "s3cret") {
		t.Errorf("want one line without a password:\n%s", r.stdout)
	}
	r = several(t, []string{a.ConnString(), unreachable}, "monitor", "--once", "--fail-if-waiting", "0").run()
	wantCode(t, r, 3)
	wantText(t, r.stdout, "PGLOCK UNKNOWN - 127.0.0.1:1/x UNKNOWN: ")
}

// One server is frozen and one restarts. The third is shown throughout.
func TestServersAFrozenServerDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	steady, frozen, restarted := testenv.NewServer(t, nil), testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	a, b, c := testenv.On(t, steady), testenv.On(t, frozen), testenv.On(t, restarted)
	must.Succeed(t, frozen.Pause())
	resumed := false
	resume := func() {
		if !resumed {
			must.Succeed(t, frozen.Resume())
			resumed = true
		}
	}
	t.Cleanup(resume)
	p := several(t, []string{a.ConnString(), b.ConnString(), c.ConnString()}, "monitor", "-o", "ndjson", "--interval", "100ms").start()
	count := func(db *testenv.DB) int {
		return strings.Count(p.stdout.String(), fmt.Sprintf("%q:%q", "label", labelOf(db)))
	}
	more := func(db *testenv.DB) {
		t.Helper()
		before := count(db)
		testenv.WaitUntil(t, "there are more snapshots of "+labelOf(db), func() bool { return count(db) > before+2 })
	}
	more(a)
	more(c)
	must.Succeed(t, restarted.Down(t.Context(), pgserver.Immediate))
	p.waitForOutput(c.Name() + ": ")
	more(a)
	must.Succeed(t, restarted.Up(t.Context()))
	more(c)
	wantText(t, p.stderr.String(), "; trying again", c.Name()+" answers again")
	more(a)
	if n := count(b); n > 0 {
		t.Errorf("there are %d snapshots of a frozen server", n)
	}
	resume()
	more(b)
	p.signal(syscall.SIGTERM)
	wantCode(t, p.end(), 0)
}

func TestServersEventsNameTheirServer(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	hold(t, db, "SELECT pg_advisory_lock(7)")
	queue(t, db, "SELECT pg_advisory_lock(7)")
	dsns := []string{unreachable, db.ConnString()}
	p := several(t, dsns, "monitor", "--events", "--interval", "100ms").start()
	p.waitForOutput(labelOf(db) + "  @7: ")
	p.signal(syscall.SIGTERM)
	wantCode(t, p.end(), 0)
	p = several(t, dsns, "monitor", "--events", "-o", "ndjson", "--interval", "100ms").start()
	p.waitForOutput(fmt.Sprintf(`"in_recovery":false,"label":%q}`, labelOf(db)))
	p.signal(syscall.SIGTERM)
	wantCode(t, p.end(), 0)
}

// The same server is shown once, whatever its addresses. A standby is a different server from its primary.
func TestServersTheSameServerIsShownOnce(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	socket := fmt.Sprintf("%s&host=%s", strings.Replace(db.ConnString(), "127.0.0.1", "", 1), server.SocketDir())
	r := several(t, []string{db.ConnString(), socket}, "monitor", "--once", "-o", "ndjson").run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, server.SocketDir(), "the same server as "+labelOf(db))
	if all := snapshotsOf(t, r.stdout); len(all) != 1 || all[0].Server.Label != labelOf(db) {
		t.Errorf("the snapshots are %s", r.stdout)
	}
	// Without the right to read the system identifier.
	execute(t, testenv.On(t, server), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	execute(t, db, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC; CREATE ROLE watcher LOGIN PASSWORD 'w'")
	watcher := func(dsn string) string {
		_, place, _ := strings.Cut(dsn, "@")
		return "postgres://watcher:w@" + place
	}
	r = several(t, []string{watcher(db.ConnString()), watcher(socket)}, "monitor", "--once", "-o", "ndjson").run()
	wantText(t, r.stderr, "the same server as "+labelOf(db))
	execute(t, db, "DROP ROLE watcher")

	r = several(t, []string{db.ConnString(), db.ConnString() + "&application_name=x"}, "monitor", "--once").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "server "+labelOf(db)+" is given twice")
}

// Servers come from flags, a file and services.
func TestServersWhereServersAreNamed(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t).ConnConfig
	dir := t.TempDir()
	path := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(file, []byte(text), mode))
		must.Succeed(t, os.Chmod(file, mode))
		return file
	}
	services := "PGSERVICEFILE=" + path("services", fmt.Sprintf("[shop]\nhost=%s\nport=%d\nuser=%s\npassword=%s\ndbname=%s\n[gone]\nhost=127.0.0.1\nport=1\n",
		config.Host, config.Port, config.User, config.Password, db.Name()), 0o600)
	list := path("list", "# ours\n\nservice=shop\n"+unreachable+"\n", 0o600)
	for _, test := range []struct {
		args   []string
		labels []string // of the snapshots
	}{
		{[]string{"--service", "shop"}, []string{""}},
		{[]string{"--service", "shop", "--service", "gone"}, []string{"shop"}},
		{[]string{"--dsn", "service=shop", "--dsn", unreachable}, []string{"shop"}},
		{[]string{"--dsn-file", list}, []string{"shop"}},
		{[]string{"--dsn", "postgres://127.0.0.1:1/y", "--dsn-file", list}, []string{"shop"}},
	} {
		r := command(t, []string{services}, append([]string{"monitor", "--once", "-o", "ndjson"}, test.args...)...).run()
		all := snapshotsOf(t, r.stdout)
		if len(all) != len(test.labels) || all[0].Server.Label != test.labels[0] || all[0].Database != db.Name() {
			t.Errorf("%q shows %s\n%s", test.args, r.stdout, r.stderr)
		}
	}
	for args, want := range map[string]string{
		"--dsn-file -": "standard input",
		"--dsn-file " + path("empty", "# nothing\n", 0o600):                           "names no server",
		"--dsn-file " + path("open", unreachable+"\n", 0o644):                         "can be read or changed by other users",
		"--dsn-file " + path("broken", "\nhost=a\npostgres://u:s3/cret@h/d\n", 0o600): "broken, line 3: malformed URL",
		"--dsn-file " + filepath.Join(dir, "none"):                                    "no such file",
		"--service none":      "unable to find service: none",
		"--service":           "needs an argument",
		"--service gone shop": "contradicts --service",
		"--service shop --service gone --record " + dir + " --once": "--record contradicts --once",
		"--service shop --service gone --http 127.0.0.1":            "--http: want HOST:PORT",
		"--service shop --service gone --http 127.0.0.1:0 --events": "--http contradicts --output and --events",
		"--dsn " + unreachable + " --dsn  --once":                   "--dsn is empty",
		"--service shop --dsn service=shop":                         "shop is given twice",
		"--service shop -h elsewhere":                               "contradict a connection string",
	} {
		r := command(t, []string{services}, append([]string{"monitor"}, strings.Split(args, " ")...)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, want)
		wantNoSecret(t, r)
	}
	r := command(t, []string{services}, "monitor", "--once", "--service", "shop", "--service", "gone").run()
	wantText(t, r.stdout, fmt.Sprintf("shop (%s@%s)  PostgreSQL ", config.User, labelOf(db)))
	r = command(t, []string{services}, "__complete", "monitor", "--service", "s").run()
	wantText(t, r.stdout, "shop\n")
}

// One monitor records several servers, each in a file of its own, also if one does not answer.
func TestServersAreRecordedInAFileEach(t *testing.T) {
	t.Parallel()
	a := testenv.Database(t)
	hold(t, a, "SELECT pg_advisory_lock(41)")
	folder := filepath.Join(t.TempDir(), "recordings")
	p := several(t, []string{a.ConnString(), unreachable}, "monitor", "--record", folder, "--interval", "50ms").start()
	p.waitForOutput("recording ")
	of := func(label string) string {
		return filepath.Join(folder, strings.NewReplacer(":", "_", "/", "_").Replace(label)+".rec")
	}
	testenv.WaitUntil(t, "a snapshot in the file", func() bool {
		r := command(t, nil, "replay", of(labelOf(a)), "-o", "ndjson").run()
		return strings.Contains(r.stdout, `"@41"`)
	})
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "refused")
	if r.stdout != "" {
		t.Errorf("it printed %s", r.stdout)
	}
	for _, path := range []string{of(labelOf(a)), of(label(unreachable))} {
		info, err := os.Stat(path)
		must.Succeed(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}
