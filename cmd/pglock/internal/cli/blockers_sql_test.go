package cli_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// blockersSQL runs the file for psql, and returns what it prints.
func blockersSQL(t *testing.T, connString string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "psql", "-X", "-A", "-t", "-F", " ", "-v", "ON_ERROR_STOP=1", "-d", connString,
		"-f", "../../../../docs/blockers.sql").CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
	return string(out)
}

// The file for psql names the roots of waits for locks of all types. It needs no schema.
func TestBlockersSQLNamesTheRoots(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, map[string]string{"max_prepared_transactions": "2"}))
	execute(t, db, "CREATE TABLE orders (id int)")
	hold(t, db, "SET application_name = 'ddl-owner'; BEGIN; LOCK TABLE orders")
	job := db.Connect(t)
	_, err := job.Exec(t.Context(), "SET application_name = 'job'; SELECT pg_advisory_lock(3333)")
	must.Succeed(t, err)
	queue(t, db, "SELECT pg_advisory_lock(3333)")
	queueTable(t, db, job, "SELECT * FROM orders")
	prepare(t, db, "SELECT pg_advisory_xact_lock(7, -42)", gid(db))
	queue(t, db, "SELECT pg_advisory_lock(7, -42)")
	text := regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(blockersSQL(t, db.ConnString()), "AGE")
	for _, want := range []string{" postgres ddl-owner idle in transaction AGE public.orders AccessExclusiveLock 2 AGE SET application_name",
		"'" + strings.ReplaceAll(gid(db), "'", "''") + "' postgres  prepared AGE @7/-42 ExclusiveLock 1 AGE",
		"\n@3333 ExclusiveLock 1 AGE\n", "\npublic.orders AccessShareLock 1 AGE\n"} {
		wantText(t, text, want)
	}
	if strings.Contains(text, " job ") {
		t.Errorf("a session that waits itself is a root:\n%s", text)
	}
}

// A role that may not see other roles' states is not told that they are prepared transactions, and the numbers of another
// database's tables are not looked up in this one.
func TestBlockersSQLOfLittleRightsAndOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db, other := testenv.On(t, server), testenv.On(t, server)
	execute(t, db, "CREATE TABLE orders (id int)")
	hold(t, db, "BEGIN; LOCK TABLE orders")
	queueTable(t, db, db.Connect(t), "SELECT * FROM orders")
	if text := blockersSQL(t, db.Role(t, "viewer")); strings.Contains(text, " prepared  public.orders") || !strings.Contains(text, "public.orders AccessExclusiveLock 1 ") {
		t.Errorf("a role without rights sees\n%s", text)
	}
	relation := regexp.MustCompile(`(?m)^\s*relation \d+ in database \S+ AccessShareLock 1 `)
	if text := blockersSQL(t, other.ConnString()); !relation.MatchString(text) || strings.Contains(text, "public.orders") {
		t.Errorf("in another database one sees\n%s", text)
	}
}
