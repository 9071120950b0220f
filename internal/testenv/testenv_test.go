package testenv_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// recorder is a test within the test: it records failures, and end runs its cleanups.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() string {
	for _, cleanup := range slices.Backward(r.cleanups) {
		cleanup()
	}
	return strings.Join(r.failures, "\n")
}

func TestATestFailsForWhatItLeaves(t *testing.T) {
	t.Parallel()
	inner := &recorder{TB: t}
	db := testenv.Database(inner)
	config := db.Config(inner).ConnConfig
	config.RuntimeParams["application_name"] = "forgetful"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	for _, statement := range []string{
		"BEGIN; SELECT pg_advisory_xact_lock_shared(7); PREPARE TRANSACTION '" + db.Name() + "'",
		"SELECT pg_advisory_lock(-2, 3) -- the last query",
	} {
		_, err = conn.Exec(t.Context(), statement)
		must.Succeed(t, err)
	}

	failures := inner.end()
	_, err = conn.Exec(t.Context(), "ROLLBACK PREPARED '"+db.Name()+"'") // the database could not be dropped with it
	must.Succeed(t, err)
	failures += inner.end()

	for _, want := range []string{
		"prepared transaction " + db.Name(),
		"advisory lock 7 (objsubid 1) in ShareLock, held by 0",
		"advisory lock -8589934589 (objsubid 2) in ExclusiveLock, held by",
		fmt.Sprintf("session %d of ", pid(conn)),
		"(application forgetful, idle): SELECT pg_advisory_lock(-2, 3) -- the last query",
	} {
		if !strings.Contains(failures, want) {
			t.Errorf("the failures do not contain %q: %s", want, failures)
		}
	}
	if exists(t, "pg_database", "datname", db.Name()) {
		t.Error("the database is still there")
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the session is still there")
	}
	must.Succeed(t, conn.Close(context.Background()))
}

// TestAForgetfulBinary passes, and leaves behind what its binary must fail for.
func TestAForgetfulBinary(t *testing.T) {
	switch os.Getenv(forgetEnv) {
	case "a goroutine":
		go func() { select {} }()
	case "a session":
		conn, err := pgx.Connect(t.Context(), testenv.ForExamples().ConnString())
		must.Succeed(t, err)
		forgotten = conn
	}
}

// forgotten keeps the garbage collector from closing the connection.
var forgotten *pgx.Conn

const forgetEnv = "PGLOCK_TESTENV_TEST_FORGET"

func TestMainFailsForWhatTestsLeave(t *testing.T) {
	t.Parallel()
	for forgotten, want := range map[string]string{
		"a goroutine": "found unexpected goroutines", "a session": "the test has left in its database", "": "PASS",
	} {
		t.Run("forgotten "+forgotten, func(t *testing.T) {
			t.Parallel()
			binary := exec.Command(os.Args[0], "-test.run=^TestAForgetfulBinary$")
			binary.Env = append(os.Environ(), forgetEnv+"="+forgotten)
			output, err := binary.CombinedOutput()
			if failed := err != nil; failed != (forgotten != "") || !strings.Contains(string(output), want) {
				t.Errorf("it ended with %v: %s", err, output)
			}
		})
	}
}

// pid is the process ID that the server sent when the session began, or that PgBouncer made up.
func pid(conn *pgx.Conn) int32 { return int32(conn.PgConn().PID()) }

func exists(t *testing.T, table, column, value string) (found bool) {
	t.Helper()
	conn := testenv.Database(t).Connect(t)
	query := fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_catalog.%s WHERE %s = $1)", table, column)
	must.Succeed(t, conn.QueryRow(t.Context(), query, value).Scan(&found))
	return found
}
