package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestCheckForNagios(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	status := func(code int, args ...string) string {
		t.Helper()
		r := on(t, db, append([]string{"check", "--key", "@7007"}, args...)...).run()
		wantCode(t, r, code)
		if strings.Count(r.stdout, "\n") != 1 || strings.Count(r.stdout, "|") > 1 {
			t.Errorf("want one line: %q", r.stdout)
		}
		return r.stdout
	}
	wantText(t, status(0, "--critical", "30s"), "PGLOCK OK - ", "othing waits", // there, or of what the filters show: tests share the server
		". No locks held. | longest_wait=0.000s;;30;0 waiters=0;")
	hold(t, db, "SET application_name = 'bill|ing'; SELECT pg_advisory_lock(7007)")
	queue(t, db, "SELECT pg_advisory_lock(7007)")
	wantText(t, status(0, "--critical", "1h"), "PGLOCK OK - ", " bill/ing, idle for ", ", holds @7007 (excl)", "frees 1", "; run: pglock terminate ", "waiters=1;")
	wantText(t, status(1, "--warning", "0", "--critical", "1h"), "PGLOCK WARNING - ")
	wantText(t, status(2, "--critical", "0"), "PGLOCK CRITICAL - ")
	wantText(t, status(3, "--critical", "1", "--dsn", "postgres://u:s3cret@127.0.0.1:1/x"),
		"PGLOCK UNKNOWN - u@127.0.0.1:1/x: ")
	for _, args := range [][]string{{"--critical", "soon"}, {"--warning", "5", "--critical", "5"}, {"--no-such-flag"}, {"a", "b"}, {"--key", "@x"}} {
		wantText(t, status(3, args...), "PGLOCK UNKNOWN - ")
	}
}

// A look at a server that accepts connections and does not answer ends before a monitoring system gives up, and a check is UNKNOWN.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]int{"check": 3, "monitor --once": 69, "doctor": 69, "terminate 4711": 69, "cancel 4711 --dry-run": 69} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			r := command(t, nil, append(strings.Fields(args), "-d", fmt.Sprintf("postgres://u:s3cret@%s/x", testenv.SilentServer(t)))...).run()
			wantCode(t, r, code)
			wantText(t, r.stdout+r.stderr, "no answer within 4.5s", "a pooler has no session")
		})
	}
}

// No face takes a server for healthy where sessions wait without any advisory lock. The server is shared with other tests.
func TestMonitorWaitsWithoutAdvisoryLocks(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil)) // where no other test has waiters
	execute(t, db, "CREATE TABLE orders (id int)")
	hold(t, db, "BEGIN; LOCK TABLE orders")
	conn := db.Connect(t)
	waiter := fmt.Sprint(conn.PgConn().PID())
	queueTable(t, db, conn, "SELECT * FROM orders")
	output := func(code int, args ...string) string {
		t.Helper()
		r := on(t, db, args...).run()
		wantCode(t, r, code)
		return r.stdout
	}
	wantText(t, output(0, "monitor", "--once"), "relation orders", waiter)
	wantText(t, output(0, "monitor", "--advisory", "--once"), "Nothing waits for an advisory lock")
	wantText(t, output(2, "check", "--critical", "0"), "PGLOCK CRITICAL - ", "; run: ")
	wantText(t, output(0, "check", "--critical", "0", "--advisory"), "PGLOCK OK - Nothing waits for an advisory lock")
	wantText(t, output(0, "doctor"), "relation orders (AccExcl): frees 1")
	watch := on(t, db, "watch").start()
	watch.waitForOutput("relation orders: ")
	watch.signal(os.Interrupt)
	wantCode(t, watch.end(), 0)
}

func TestCheckOfADatabaseWithoutAConversionToUTF8SaysWhereToConnect(t *testing.T) {
	db := testenv.Database(t)
	mule := db.Name() + "_mule"
	execute(t, db, "CREATE DATABASE "+mule+" ENCODING 'MULE_INTERNAL' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
	defer execute(t, db, "DROP DATABASE "+mule)
	r := command(t, nil, "check", "-d", strings.Replace(db.ConnString(), db.Name(), mule, 1)).run()
	wantCode(t, r, 3)
	wantText(t, r.stdout, "pglock needs a database whose text converts to UTF-8: from such a one")
}
