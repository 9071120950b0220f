package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The same arguments name the same database as with psql.
func TestConnectionAsWithPsql(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t).ConnConfig
	passwords := filepath.Join(t.TempDir(), "pgpass")
	must.Succeed(t, os.WriteFile(passwords, []byte("*:*:*:*:"+config.Password+"\n"), 0o600))
	variables := []string{"PGPASSFILE=" + passwords}
	url := []string{"DATABASE_URL=" + strings.Replace(db.ConnString(), db.Name(), "postgres", 1)}
	name := fmt.Sprintf("dbname='%s'", db.Name())
	for _, test := range []struct {
		env, args []string
	}{
		{url, []string{db.Name()}},
		{url, []string{"-d", db.Name()}},
		{nil, []string{db.ConnString()}},
		{append(variables, "PGHOST="+config.Host, "PGPORT="+fmt.Sprint(config.Port), "PGUSER="+config.User), []string{name}},
	} {
		r := command(t, test.env, append([]string{"monitor", "--once"}, test.args...)...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, config.User+"@", "/"+db.Name())
	}
	wantCode(t, command(t, nil, "monitor", "-d", "a", "b").run(), 64)
}

// A chain that continues beyond advisory locks is shown in the table, and before its root is terminated.
func TestConnectionTheChainBeyondAdvisoryLocks(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	hold(t, db, "CREATE TABLE t ()")
	owner := hold(t, db, "SET application_name = 'ddl-owner'; BEGIN; LOCK TABLE t")
	job := db.Connect(t)
	_, err := job.Exec(t.Context(), "SET application_name = 'sync-job'; SELECT pg_advisory_lock(3333)")
	must.Succeed(t, err)
	queueTable(t, db, job, "SELECT * FROM t")
	queue(t, db, "SELECT pg_advisory_lock(3333)")
	r := on(t, db, "monitor", "--once").run()
	wantCode(t, r, 0)
	for _, line := range []string{fmt.Sprintf(`(?m)^%d ddl-owner +holds AccExcl +relation t +idle in tx`, owner), `└─ \d+ sync-job .* AccShare +relation t`,
		`   └─ \d+ .* excl +@3333`} {
		if !regexp.MustCompile(line).MatchString(r.stdout) {
			t.Errorf("there is no line %s in\n%s", line, r.stdout)
		}
	}
	r = on(t, db, "terminate", fmt.Sprint(owner)).run()
	wantCode(t, r, 64) // without a terminal there is no confirmation
	wantText(t, r.stderr, "It holds no advisory lock.", "1 session waits for its other locks:", "relation t (AccExcl), wanted AccShare: ",
		"Ending it frees 1, then 1 more.")
}

// queueTable makes conn wait for a lock on a table until the test ends.
func queueTable(t *testing.T, db *testenv.DB, conn *pgx.Conn, statement string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(ctx, statement) // ends with the test
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	pool := db.Pool(t)
	testenv.WaitUntil(t, statement+" waits", func() bool {
		var waits bool
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)",
			int32(conn.PgConn().PID())).Scan(&waits))
		return waits
	})
}
