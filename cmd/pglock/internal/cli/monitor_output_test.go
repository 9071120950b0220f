package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMonitorTheCheckForNagios(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	status := func(code int, args ...string) string {
		t.Helper()
		r := on(t, db, append([]string{"monitor", "--once", "--key", "@7007"}, args...)...).run()
		wantCode(t, r, code)
		if strings.Count(r.stdout, "\n") != 1 || strings.Count(r.stdout, "|") > 1 {
			t.Errorf("want one line: %q", r.stdout)
		}
		return r.stdout
	}
	wantText(t, status(0, "--fail-if-waiting", "30s"), "PGLOCK OK - ", "othing waits", // there, or of what the filters show: tests share the server
		". No locks held. | longest_wait=0.000s;;30;0 waiters=0;")
	hold(t, db, "SET application_name = 'bill|ing'; SELECT pg_advisory_lock(7007)")
	queue(t, db, "SELECT pg_advisory_lock(7007)")
	wantText(t, status(0, "--fail-if-waiting", "1h"), "PGLOCK OK - ", " bill/ing, idle for ", ", holds @7007 (excl)", "frees 1", "; to end it: pglock terminate", " --session ", "waiters=1;")
	wantText(t, status(1, "--warn-if-waiting", "0", "--fail-if-waiting", "1h"), "PGLOCK WARNING - ")
	wantText(t, status(2, "--fail-if-waiting", "0"), "PGLOCK CRITICAL - ")
	wantText(t, status(3, "--fail-if-waiting", "1", "--dsn", "postgres://u:s3cret@127.0.0.1:1/x"),
		"PGLOCK UNKNOWN - u@127.0.0.1:1/x: ")
	for _, args := range [][]string{{"--fail-if-waiting", "1"}, {"--once", "--warn-if-waiting", "1", "-o", "json"},
		{"--once", "--fail-if-waiting", "soon"}, {"--once", "--warn-if-waiting", "5", "--fail-if-waiting", "5"}} {
		wantCode(t, on(t, db, append([]string{"monitor"}, args...)...).run(), 64)
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
		r := on(t, db, append([]string{"monitor", "--once"}, args...)...).run()
		wantCode(t, r, code)
		return r.stdout
	}
	wantText(t, output(0), " without an advisory lock (--all)")
	wantText(t, output(0, "--all"), "relation orders", waiter)
	wantText(t, output(0, "--fail-if-waiting", "1h"), " without an advisory lock (--all). ")
	wantText(t, output(2, "--fail-if-waiting", "0", "--all"), "PGLOCK CRITICAL - ", "; to end it: ")
	r := on(t, db, "doctor", "--long-wait", "0", "-o", "json").run()
	wantText(t, r.stdout, "holds relation orders (AccExcl): frees 1")
}
