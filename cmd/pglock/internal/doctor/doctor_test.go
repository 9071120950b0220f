package doctor_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

func TestMain(m *testing.M) { testenv.MainAlone(m) }

func execute(t testing.TB, db *testenv.DB, statements ...string) {
	t.Helper()
	pool := db.Pool(t)
	defer pool.Close()
	for _, statement := range statements {
		if _, err := pool.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func examine(t testing.TB, connString string, longWait time.Duration) *doctor.Report {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), connString)
	must.Succeed(t, err)
	defer pool.Close()
	report, err := doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: longWait})
	must.Succeed(t, err)
	return report
}

// findings returns the findings of one check.
func findings(r *doctor.Report, check string) (found []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

// want checks that a check has one finding of a level, with texts that contain all parts.
func want(t testing.TB, r *doctor.Report, check string, level doctor.Level, parts ...string) doctor.Finding {
	t.Helper()
	found := findings(r, check)
	if len(found) != 1 || found[0].Level != level {
		t.Fatalf("%s has the findings %+v, want one of level %s", check, found, level)
	}
	text := fmt.Sprintf("%+v", found[0])
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q: %s", check, part, text)
		}
	}
	if f := found[0]; level != doctor.OK && (f.Why == "" || f.Do == "") || f.What == "" || f.SQL == nil {
		t.Errorf("%s does not say everything: %+v", check, f)
	}
	return found[0]
}

func user(t testing.TB, connString string) string {
	t.Helper()
	config, err := pgx.ParseConfig(connString)
	must.Succeed(t, err)
	return config.User
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func TestAPlainServerIsFine(t *testing.T) {
	db := testenv.Installed(t)
	r := examine(t, db.ConnString(), time.Minute)
	for _, name := range []string{"server", "proxy", "standby", "default_transaction_isolation", "statement_timeout",
		"lock_timeout", "temp", "connections", "lock-table", "schema", "locker-grants",
		"watcher-grants", "pg_read_all_stats", "pg_signal_backend", "idle_session_timeout", "trust"} {
		want(t, r, name, doctor.OK)
	}
	for _, f := range r.Findings {
		if !slices.Contains(doctor.Checks, f.Check) {
			t.Errorf("%s is not among the checks", f.Check)
		}
	}
	if r.Worst != doctor.Note || r.Version != doctor.FormatVersion || r.Database != db.Name() || r.TakenAt.IsZero() {
		t.Errorf("the report is %+v", r)
	}
	if !slices.IsSortedFunc(r.Findings, func(a, b doctor.Finding) int {
		return slices.Index(doctor.Levels, b.Level) - slices.Index(doctor.Levels, a.Level)
	}) {
		t.Errorf("the worst findings do not come first: %+v", r.Findings)
	}
	text, err := json.Marshal(r)
	must.Succeed(t, err)
	for _, field := range []string{`"version":1`, `"taken_at"`, `"server_version"`, `"database"`, `"role"`, `"worst"`,
		`"findings":[{`, `"check"`, `"level"`, `"what"`, `"why"`, `"do"`, `"sql":[]`, `"optional":false`} {
		if !strings.Contains(string(text), field) {
			t.Errorf("the JSON has no %s: %s", field, text)
		}
	}
}

func TestAPoolerIsAProblem(t *testing.T) {
	db := testenv.Database(t)
	for _, mode := range []testenv.Pooling{testenv.TransactionPooling, testenv.SessionPooling} {
		connString := testenv.PgBouncer(t, db, mode)
		config, err := pgxpool.ParseConfig(connString)
		must.Succeed(t, err)
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // PgBouncer may not know prepared statements
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		r, err := doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: time.Minute})
		must.Succeed(t, err)
		want(t, r, "proxy", doctor.Problem, "ErrPooler", "AllowPooler", "--allow-pooler", "--ignore proxy")
		if r.Worst != doctor.Problem {
			t.Errorf("the worst finding is %s", r.Worst)
		}
	}
}

func TestAStandbyIsAProblem(t *testing.T) {
	primary := testenv.NewServer(t, nil)
	standby, err := primary.Standby(t.Context())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, standby.Stop()) })
	want(t, examine(t, standby.ConnString("postgres"), time.Minute), "standby", doctor.Problem, "ErrStandby", "primary")
	want(t, examine(t, primary.ConnString("postgres"), time.Minute), "standby", doctor.OK)
}

// Following the advice removes the finding. A timeout that only bounds a transaction is no reason to turn it off.
func TestTimeoutsOfTheRole(t *testing.T) {
	levels := map[string]doctor.Level{
		"idle_session_timeout":          doctor.Warning,
		"statement_timeout":             doctor.Note,
		"lock_timeout":                  doctor.Note,
		"default_transaction_isolation": doctor.Warning,
	}
	values := map[string]string{"default_transaction_isolation": "repeatable read"}
	for _, scope := range []string{"ALTER ROLE %[1]s", "ALTER DATABASE %[2]s", "ALTER ROLE %[1]s IN DATABASE %[2]s"} {
		db := testenv.Database(t)
		connString := db.Role(t, "app")
		origin := fmt.Sprintf(scope, quote(user(t, connString)), quote(db.Name()))
		for name := range levels {
			execute(t, db, fmt.Sprintf("%s SET %s = '%s'", origin, name, cmp.Or(values[name], "7min")))
		}
		before := examine(t, connString, time.Minute)
		for name, level := range levels {
			f := want(t, before, name, level, "from "+origin, cmp.Or(values[name], "7min"))
			execute(t, db, f.SQL...)
			if level != doctor.Note {
				continue
			}
			if len(f.SQL) > 0 || !f.Optional {
				t.Errorf("%s turns off what protects the server: %+v", name, f)
			}
			execute(t, db, fmt.Sprintf("%s SET %s = 0", origin, name))
		}
		after := examine(t, connString, time.Minute)
		for name := range levels {
			want(t, after, name, doctor.OK)
		}
	}
}

func TestATimeoutOfTheConnectionStringIsNotTheServersToChange(t *testing.T) {
	db := testenv.Database(t)
	f := want(t, examine(t, db.ConnString()+"&statement_timeout=5s", time.Minute), "statement_timeout", doctor.Note,
		"from the connection string", "take it out of the connection string")
	if len(f.SQL) != 0 {
		t.Errorf("the finding suggests %q", f.SQL)
	}
}

func TestATimeoutThatEndsTheExaminationIsExplained(t *testing.T) {
	db := testenv.Database(t)
	execute(t, db, "ALTER DATABASE "+quote(db.Name())+" SET statement_timeout = 1000")
	upgrade := db.Connect(t)
	_, err := upgrade.Exec(t.Context(), "SET statement_timeout = 0; BEGIN; LOCK TABLE pg_catalog.pg_settings")
	must.Succeed(t, err)
	_, err = doctor.Examine(t.Context(), db.Pool(t), doctor.Options{App: true, LongWait: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "statement timeout") || !strings.Contains(err.Error(), "connection string set it to 0") {
		t.Errorf("the error is %v", err)
	}
}

func TestACatalogThatIsLockedEndsTheExamination(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	must.Succeed(t, pool.Ping(t.Context()))
	_, err := db.Connect(t).Exec(t.Context(), "BEGIN; LOCK TABLE pg_catalog.pg_policy")
	must.Succeed(t, err)
	_, err = doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "alters a catalog") {
		t.Errorf("the error is %v", err)
	}
}

func TestClientsThatAreGone(t *testing.T) {
	db := testenv.Database(t)
	connString := db.Role(t, "app")
	for _, name := range []string{"client_connection_check_interval", "tcp_keepalives"} {
		f := want(t, examine(t, connString, time.Minute), name, doctor.Note, "gone")
		execute(t, db, f.SQL...)
		want(t, examine(t, connString, time.Minute), name, doctor.OK)
	}
}

func TestAUnixSocketNeedsNoKeepalives(t *testing.T) {
	server := testenv.NewServer(t, nil)
	config, err := pgxpool.ParseConfig(server.ConnString("postgres"))
	must.Succeed(t, err)
	config.ConnConfig.Host = server.SocketDir()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	r, err := doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: time.Minute})
	must.Succeed(t, err)
	want(t, r, "tcp_keepalives", doctor.OK, "Unix socket")
}

func TestRightsThatAreMissingAndHowToGrantThem(t *testing.T) {
	db := testenv.Installed(t)
	connString := db.Role(t, "app")
	execute(t, db, "REVOKE TEMPORARY ON DATABASE "+quote(db.Name())+" FROM PUBLIC")
	before := examine(t, connString, time.Minute)
	for name, level := range map[string]doctor.Level{"temp": doctor.Warning, "locker-grants": doctor.Note,
		"pg_read_all_stats": doctor.Note, "pg_signal_backend": doctor.Note} {
		execute(t, db, want(t, before, name, level, "GRANT").SQL...)
	}
	between := examine(t, connString, time.Minute)
	execute(t, db, want(t, between, "watcher-grants", doctor.Note, "GRANT").SQL...)
	after := examine(t, connString, time.Minute)
	for _, name := range []string{"temp", "schema", "pg_read_all_stats", "pg_signal_backend", "locker-grants",
		"watcher-grants"} {
		want(t, after, name, doctor.OK)
	}
}

func TestTheRightsOfALockerAreAskedForSeparately(t *testing.T) {
	db := testenv.Installed(t)
	connString := db.Role(t, "watcher")
	execute(t, db, migrations.WatcherGrants(user(t, connString)))
	r := examine(t, connString, time.Minute)
	want(t, r, "watcher-grants", doctor.OK)
	execute(t, db, want(t, r, "locker-grants", doctor.Note, "pglock.fence").SQL...)
	want(t, examine(t, connString, time.Minute), "locker-grants", doctor.OK)
}

func TestTheVersionOfTheSchema(t *testing.T) {
	db := testenv.Database(t)
	want(t, examine(t, db.ConnString(), time.Minute), "schema", doctor.Note, "pglock migrate up", "locks in rows")
	must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))
	want(t, examine(t, db.ConnString(), time.Minute), "schema", doctor.OK)
	execute(t, db, "CREATE OR REPLACE FUNCTION pglock.toolkit_version() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 2'")
	want(t, examine(t, db.ConnString(), time.Minute), "schema", doctor.Note, "newer pglock")
	other := testenv.Database(t)
	execute(t, other, "CREATE SCHEMA pglock")
	want(t, examine(t, other.ConnString(), time.Minute), "schema", doctor.Warning, "did not create", "locks in rows")
}

func TestConnectionsThatAreLeft(t *testing.T) {
	db := testenv.Database(t)
	connString := db.Role(t, "app")
	role, database := quote(user(t, connString)), quote(db.Name())
	for limit, level := range map[int]doctor.Level{3: doctor.Warning, 12: doctor.Note, 100: doctor.OK} {
		execute(t, db, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", role, limit))
		r := examine(t, connString, time.Minute)
		execute(t, db, want(t, r, "connections", level, "limit of the role", fmt.Sprint(" of ", limit)).SQL...)
	}
	execute(t, db, "ALTER ROLE "+role+" CONNECTION LIMIT -1", "ALTER DATABASE "+database+" CONNECTION LIMIT 12")
	f := want(t, examine(t, connString, time.Minute), "connections", doctor.Note, "limit of the database", " of 12")
	execute(t, db, f.SQL...)
	want(t, examine(t, connString, time.Minute), "connections", doctor.OK, "max_connections")
}

func TestPreparedTransactionsAndLongWaits(t *testing.T) {
	db := testenv.Database(t)
	gid := "it's " + db.Name()
	execute(t, db, "BEGIN; SELECT pg_advisory_xact_lock(7), pg_advisory_xact_lock(8); PREPARE TRANSACTION '"+
		strings.ReplaceAll(gid, "'", "''")+"'")
	waiter := db.Connect(t)
	result := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(), "SELECT pg_advisory_lock(7)")
		result <- err
	}()
	db.WaitForWaiters(t, 1)
	var r *doctor.Report
	testenv.WaitUntil(t, "the server knows since when it waits", func() bool {
		r = examine(t, db.ConnString(), time.Nanosecond)
		return len(findings(r, "waits")) == 1 && findings(r, "waits")[0].Level == doctor.Warning
	})
	want(t, r, "waits", doctor.Warning, "@7", gid, "ROLLBACK PREPARED")
	r = examine(t, db.ConnString(), time.Hour)
	want(t, r, "waits", doctor.OK)
	f := want(t, r, "prepared-transactions", doctor.Warning, gid, "2 advisory locks", "ROLLBACK PREPARED")
	execute(t, db, f.SQL...)
	must.Succeed(t, <-result)
	want(t, examine(t, db.ConnString(), time.Hour), "prepared-transactions", doctor.OK)
}

// A finding that is as it is wanted is left out, and does not count.
func TestAnIgnoredCheckHasNoFindingAndDoesNotCount(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	_, err := db.Connect(t).Exec(t.Context(), "ALTER DATABASE "+quote(db.Name())+" SET default_transaction_isolation = 'serializable'")
	must.Succeed(t, err)
	pool.Reset()
	before, err := doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: time.Hour})
	must.Succeed(t, err)
	want(t, before, "default_transaction_isolation", doctor.Warning)
	after, err := doctor.Examine(t.Context(), pool, doctor.Options{App: true, LongWait: time.Hour, Ignore: []string{"default_transaction_isolation"}})
	must.Succeed(t, err)
	if found := findings(after, "default_transaction_isolation"); len(found) != 0 || after.Worst.AtLeast(doctor.Warning) {
		t.Errorf("the worst finding is %s: %+v", after.Worst, found)
	}
}
