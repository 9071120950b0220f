package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// reported has the fields of pglock report -o json that the tests look at.
type reported struct {
	FromLog int `json:"waits_from_log"`
	Keys    []struct {
		Key     string
		Waits   int
		Max     float64 `json:"max_seconds"`
		Holders []struct {
			Name    string
			Seconds float64
		}
		Waiters []struct{ Name string }
	}
}

func report(t *testing.T, args ...string) (r reported) {
	t.Helper()
	out := command(t, nil, append([]string{"report", "-o", "json"}, args...)...).run()
	wantCode(t, out, 0)
	must.Succeed(t, json.Unmarshal([]byte(out.stdout), &r))
	return r
}

func TestReportSummarisesARecording(t *testing.T) {
	t.Parallel()
	file, _, _ := recorded(t)
	r := report(t, file, "--since", "1h")
	found := false
	for _, key := range r.Keys { // keys of other tests may be among them
		found = found || key.Key == "@42" && key.Waits == 1 && key.Max > 0 && len(key.Waiters) == 1 &&
			len(key.Holders) == 1 && key.Holders[0].Name == "nightly"
	}
	if !found {
		t.Errorf("report: %+v", r)
	}
	out := command(t, nil, "report", file).run()
	wantCode(t, out, 0)
	wantText(t, out.stdout, "@42", "WAITS", "held by: nightly ")
	german := filepath.Join(t.TempDir(), "postgresql.log")
	must.Succeed(t, os.WriteFile(german, []byte("2026-11-22 02:10:05.123 UTC [41] FEHLER:  Syntaxfehler\n"), 0o600))
	out = command(t, nil, "report", file, "--log", german).run()
	wantCode(t, out, 1)
	wantText(t, out.stderr, "lc_messages")
}

// The server logs a wait that no snapshot has.
func TestReportAddsWaitsFromTheServersLog(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	must.Succeed(t, os.Chmod(logs, 0o777)) // the server is another user
	must.Succeed(t, os.Chmod(filepath.Dir(logs), 0o755))
	server := testenv.NewServer(t, map[string]string{"logging_collector": "on", "log_directory": logs, "log_file_mode": "0644",
		"log_filename": "postgresql.log", "log_destination": "stderr,csvlog", "log_lock_waits": "on", "deadlock_timeout": "10ms",
		"log_line_prefix": "%m [%p] %q%u@%d/%a ", "log_timezone": "UTC", "lc_messages": "C"})
	db := testenv.On(t, server)
	a, b := db.Connect(t), db.Connect(t)
	_, err := b.Exec(context.Background(), "SET application_name = 'orders'")
	must.Succeed(t, err)
	destinations := "stderr,csvlog"
	json := b.PgConn().ParameterStatus("server_version") >= "15" // jsonlog is new in 15
	if json {
		destinations += ",jsonlog"
	}
	execute(t, db, "ALTER SYSTEM SET log_destination = '"+destinations+"'")
	execute(t, db, "SELECT pg_reload_conf()")
	testenv.WaitUntil(t, "the server writes all logs", func() bool {
		var now string
		must.Succeed(t, a.QueryRow(context.Background(), "SHOW log_destination").Scan(&now))
		return now == destinations
	})
	lock := func(key string) {
		_, err := a.Exec(context.Background(), "SELECT pg_advisory_lock("+key+")")
		must.Succeed(t, err)
	}
	file := filepath.Join(t.TempDir(), "locks.rec")
	snapshot := func() {
		p := on(t, db, "monitor", "--record", file, "--interval", "1h").start()
		p.waitForOutput("recording ")
		testenv.WaitUntil(t, "a snapshot is recorded", func() bool {
			info, err := os.Stat(file)
			return err == nil && info.Size() > 300
		})
		p.signal(os.Interrupt)
		wantCode(t, p.end(), 0)
	}
	_, err = a.Exec(context.Background(), "SET application_name = 'nightly'")
	must.Succeed(t, err)
	lock("7") // so that the recording knows the session of that process
	snapshot()
	lock("42")
	db.Queue(t, b, "SELECT pg_advisory_lock(42)")
	csv := filepath.Join(logs, "postgresql.csv")
	logged := func(what string) bool {
		text, err := os.ReadFile(csv)
		return err == nil && strings.Contains(string(text), what)
	}
	testenv.WaitUntil(t, "the wait is logged", func() bool { return logged("still waiting for ExclusiveLock") })
	_, err = a.Exec(context.Background(), "SELECT pg_advisory_unlock_all()")
	must.Succeed(t, err)
	testenv.WaitUntil(t, "its end is logged", func() bool { return logged("acquired ExclusiveLock") })
	deadlock(t, db, func() bool { return logged(",51,1] after") })
	snapshot()
	if r := report(t, file); len(r.Keys) != 0 {
		t.Errorf("without the log: %+v", r)
	}
	forge(t, a)
	testenv.WaitUntil(t, "forged messages are logged", func() bool { return logged("1.234") })
	all := [][]string{{"--log", csv}, {"--log", filepath.Join(logs, "postgresql.log"), "--log-line-prefix", "%m [%p] %q%u@%d/%a "}}
	if json {
		all = append(all, []string{"--log", filepath.Join(logs, "postgresql.json")})
	}
	for _, args := range all {
		out := command(t, nil, append([]string{"report", file}, args...)...).run()
		wantText(t, out.stderr, "skipped lines: 3 that a role has written")
		r := report(t, append([]string{file}, args...)...)
		if r.FromLog != 3 || len(r.Keys) != 3 {
			t.Fatalf("with %q: %+v", args, r)
		}
		for _, k := range r.Keys {
			want := map[string][2]string{"@42": {"orders", "nightly"}, "@51": {"victor", "process"}, "@52": {"victim", "victor"}}[k.Key]
			if k.Waits != 1 || k.Max < 0.01 || len(k.Waiters) != 1 || k.Waiters[0].Name != want[0] ||
				len(k.Holders) != 1 || !strings.HasPrefix(k.Holders[0].Name, want[1]) || k.Holders[0].Seconds < 0.01 {
				t.Errorf("with %q: %+v", args, k)
			}
		}
	}
	out := command(t, nil, "report", file, "--log", filepath.Join(logs, "postgresql.log")).run()
	wantText(t, out.stderr, "that have more than the log_line_prefix before the severity")
}

// deadlock has one session wait for @51, which has been seen in the log when logged says so, and then its holder for @52.
func deadlock(t *testing.T, db *testenv.DB, logged func() bool) {
	t.Helper()
	victor, victim := db.Connect(t), db.Connect(t)
	_, err := victor.Exec(t.Context(), "SET application_name = 'victor'; SELECT pg_advisory_lock(52)")
	must.Succeed(t, err)
	_, err = victim.Exec(t.Context(), "SET application_name = 'victim'; SELECT pg_advisory_lock(51)")
	must.Succeed(t, err)
	db.Queue(t, victor, "SELECT pg_advisory_lock(51)")
	testenv.WaitUntil(t, "the server has looked for a deadlock once", logged)
	if _, err := victim.Exec(t.Context(), "SELECT pg_advisory_lock(52)"); sqlstate.Of(err) != "40P01" {
		t.Errorf("the deadlock ends with %v", err)
	}
	must.Succeed(t, victim.Close(t.Context()))
	testenv.WaitUntil(t, "the other one has its lock", func() bool { return len(db.AdvisoryLocks(t)) == 3 })
}

// forge writes messages to the log that look like the server's.
func forge(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	_, err := conn.Exec(context.Background(), `DO $$ BEGIN
		RAISE LOG 'process 4242 acquired ExclusiveLock on advisory lock [5,0,77,1] after 999999999.000 ms';
		RAISE LOG 'process % acquired ExclusiveLock on advisory lock [5,0,77,1] after 0.001 ms', pg_backend_pid();
		RAISE LOG 'process % acquired ExclusiveLock on advisory lock [5,0,77,1] after 999999999.000 ms', pg_backend_pid();
		RAISE EXCEPTION 'ExclusiveLock [1,2,3,4] 1.234';
	END $$`)
	if err == nil {
		t.Error("RAISE EXCEPTION is no error")
	}
}
