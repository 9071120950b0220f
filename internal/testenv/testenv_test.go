package testenv_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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

func TestATestThatCleansUpPasses(t *testing.T) {
	t.Parallel()
	inner := &recorder{TB: t}
	db := testenv.Database(inner)
	conn, pool := db.Connect(inner), db.Pool(inner)
	_, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(1)")
	must.Succeed(t, err)
	must.Succeed(t, pool.Ping(t.Context()))
	role := db.Role(inner, "pglock_test")

	if failures := inner.end(); failures != "" {
		t.Errorf("it failed: %s", failures)
	}
	if exists(t, "pg_database", "datname", db.Name()) {
		t.Error("the database is still there")
	}
	if config, err := pgx.ParseConfig(role); err != nil || exists(t, "pg_roles", "rolname", config.User) {
		t.Errorf("the role is still there, or %v", err)
	}
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
		"BEGIN; SELECT pg_advisory_xact_lock_shared(7); PREPARE TRANSACTION 'it''s prepared in " + db.Name() + "'",
		"SELECT pg_advisory_lock(-2, 3) -- the last query",
	} {
		_, err = conn.Exec(t.Context(), statement)
		must.Succeed(t, err)
	}

	failures := inner.end()

	for _, want := range []string{
		"prepared transaction it's prepared in",
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

func TestInstalledDatabasesHaveTheSchemaAndAreApart(t *testing.T) {
	t.Parallel()
	first, second := testenv.Installed(t), testenv.Installed(t)
	_, err := first.Connect(t).Exec(t.Context(), "SELECT pglock.register('job')")
	must.Succeed(t, err)
	for db, want := range map[*testenv.DB]int{first: 1, second: 0} {
		var names int
		must.Succeed(t, db.Connect(t).QueryRow(t.Context(), "SELECT count(*) FROM pglock.names").Scan(&names))
		if names != want {
			t.Errorf("%s has %d names, want %d", db.Name(), names, want)
		}
	}
}

func TestAdvisoryLocksShowsHoldersAndWaiters(t *testing.T) {
	t.Parallel()
	db, other := testenv.Database(t), testenv.Database(t)
	holder, waiter, elsewhere := db.Connect(t), db.Connect(t), other.Connect(t)
	for conn, statement := range map[*pgx.Conn]string{
		holder:    "SELECT pg_advisory_lock(6688477336110245193), pg_advisory_lock_shared(7, -42)",
		elsewhere: "SELECT pg_advisory_lock(6688477336110245193)",
	} {
		_, err := conn.Exec(t.Context(), statement)
		must.Succeed(t, err)
	}
	waiting, waited := context.WithCancel(t.Context())
	defer waited()
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := waiter.Exec(waiting, "SELECT pg_advisory_lock(6688477336110245193)"); err == nil {
			t.Error("two sessions hold the lock")
		}
	})
	db.WaitForWaiters(t, 1)

	want := []testenv.Lock{
		{Key: 7<<32 | (1<<32 - 42), ObjSubID: 2, Mode: "ShareLock", Granted: true, PID: pid(holder)},
		{Key: 6688477336110245193, ObjSubID: 1, Mode: "ExclusiveLock", Granted: true, PID: pid(holder)},
		{Key: 6688477336110245193, ObjSubID: 1, Mode: "ExclusiveLock", Granted: false, PID: pid(waiter)},
	}
	if got := db.AdvisoryLocks(t); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	waited()
	group.Wait()
	db.WaitForWaiters(t, 0)
}

func TestARoleHasNoRights(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	_, err := db.Connect(t).Exec(t.Context(), "CREATE TABLE secret ()")
	must.Succeed(t, err)
	conn, err := pgx.Connect(t.Context(), db.Role(t, "pglock_poor"))
	must.Succeed(t, err)
	defer func() { must.Succeed(t, conn.Close(context.Background())) }()
	var user, database string
	must.Succeed(t, conn.QueryRow(t.Context(), "SELECT current_user, current_database()").Scan(&user, &database))
	if !strings.HasPrefix(user, "pglock_poor_") || database != db.Name() {
		t.Errorf("the role is %s in database %s", user, database)
	}
	if _, err := conn.Exec(t.Context(), "SELECT FROM secret"); err == nil {
		t.Error("the role can read")
	}
}

func TestTheExamplesShareADatabase(t *testing.T) {
	first, second := testenv.ForExamples(), testenv.ForExamples()
	if first != second {
		t.Error("there are two databases")
	}
	conn, err := pgx.Connect(t.Context(), first.ConnString())
	must.Succeed(t, err)
	must.Succeed(t, conn.Close(t.Context()))
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

func TestTrialsAreMultiplied(t *testing.T) {
	for times, want := range map[string]int{"": 15, "4": 60, "0.1": 2, "0.001": 1} {
		t.Setenv("PGLOCK_TEST_TRIALS", times)
		if got := testenv.Trials(t, 15); got != want {
			t.Errorf("%q times 15 are %d, want %d", times, got, want)
		}
	}
}
