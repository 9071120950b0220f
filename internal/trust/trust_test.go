package trust_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func connect(t *testing.T, connString string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func user(conn *pgx.Conn) string { return conn.Config().User }

// find returns what is wrong with the schema, as a set.
func find(t *testing.T, conn *pgx.Conn, named ...string) []trust.Finding {
	t.Helper()
	looked, err := trust.Look(t.Context(), conn, named)
	must.Succeed(t, err)
	return looked.Findings
}

// What a tenant can do to an administrator's schema that gave away a right, also if the right was taken away again, and
// what an administrator can do by mistake. Each is found, and the statements that are printed end it.
func TestTrustOfASchemaThatIsInfected(t *testing.T) {
	t.Parallel()
	const owner, right, outside, attached = "belongs to role", "has the right", "leads to something", "is nothing that pglock makes"
	const maker = `
		CREATE FUNCTION trap.fixed(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM trap.spring(); RETURN $1; END';
		CREATE DOMAIN trap.d AS text CHECK (trap.spring());
		CREATE FUNCTION trap.cat(text, bigint) RETURNS text LANGUAGE sql AS 'SELECT $1';
		CREATE OPERATOR trap.|| (FUNCTION = trap.cat, LEFTARG = text, RIGHTARG = bigint)`
	for name, test := range map[string]struct {
		admin  string // with the rights of the administrator; {} is the tenant
		tenant string
		after  string // by the administrator
		kind   string
		object string
	}{
		"a right to attach": {admin: "GRANT TRIGGER ON pglock.names TO {}", kind: right, object: "TRIGGER on TABLE pglock.names"},
		"a trigger": {"GRANT TRIGGER ON pglock.names TO {}",
			"CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW EXECUTE FUNCTION trap.trigger()", "", attached,
			"trigger t on table pglock.names"},
		"a trigger of built-in code, whose right was taken away": {"GRANT TRIGGER ON pglock.names TO {}",
			"CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW WHEN (query_to_xml('SELECT trap.spring()', false, false, '') " +
				"IS NULL) EXECUTE FUNCTION suppress_redundant_updates_trigger()",
			"REVOKE TRIGGER ON pglock.names FROM {}", attached, "trigger t on table pglock.names"},
		"a foreign key, whose right was taken away": {"GRANT REFERENCES ON pglock.jobs TO {}",
			"CREATE TABLE trap.fk (job text REFERENCES pglock.jobs ON DELETE CASCADE)", "REVOKE REFERENCES ON pglock.jobs FROM {}",
			attached, "constraint fk_job_fkey on table trap.fk"},
		"an overload": {"GRANT CREATE ON SCHEMA pglock TO {}",
			"CREATE FUNCTION pglock.key(varchar) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
			"REVOKE CREATE ON SCHEMA pglock FROM {}", owner, "function pglock.key(character varying)"},
		"a right to create":   {admin: "GRANT CREATE ON SCHEMA pglock TO {}", kind: right, object: "CREATE on SCHEMA pglock"},
		"a right to write":    {admin: "GRANT INSERT ON pglock.once_records TO PUBLIC", kind: right, object: "INSERT on TABLE pglock.once_records"},
		"a right on a column": {admin: "GRANT UPDATE (key) ON pglock.jobs TO {}", kind: right, object: "UPDATE on TABLE pglock.jobs"},
		"a right to go back":  {admin: "GRANT UPDATE ON SEQUENCE pglock.fence TO {}", kind: right, object: "UPDATE on SEQUENCE pglock.fence"},
		"a default": {after: "ALTER TABLE pglock.jobs ALTER pruned SET DEFAULT CASE WHEN trap.spring() THEN now() END",
			kind: outside, object: "default value for column pruned of table pglock.jobs"},
		"a generated column": {after: "ALTER TABLE pglock.jobs ADD g bigint GENERATED ALWAYS AS (trap.fixed(1)) STORED",
			kind: outside, object: "default value for column g of table pglock.jobs"},
		"a column of a domain": {after: "ALTER TABLE pglock.jobs ADD x trap.d", kind: outside, object: "column x of table pglock.jobs"},
		"an index":             {after: "CREATE INDEX i ON pglock.names (trap.fixed(key))", kind: outside, object: "index pglock.i"},
		"a check": {after: "ALTER TABLE pglock.names ADD CONSTRAINT c CHECK (trap.fixed(key) IS NOT NULL)", kind: outside,
			object: "constraint c on table pglock.names"},
		"a view": {after: "CREATE VIEW pglock.more AS SELECT 'a' OPERATOR(trap.||) key AS x FROM pglock.names", kind: outside,
			object: "rule _RETURN on view pglock.more"},
		"an argument": {after: "CREATE FUNCTION pglock.more(a bool DEFAULT trap.spring()) RETURNS bool LANGUAGE sql AS 'SELECT a'",
			kind: outside, object: "function pglock.more(boolean)"},
		"a domain in the schema": {after: "CREATE DOMAIN pglock.d AS text CONSTRAINT c CHECK (trap.spring())", kind: outside,
			object: "constraint c"},
		"a foreign key to outside": {after: "CREATE TABLE trap.o (k text PRIMARY KEY); ALTER TABLE pglock.jobs ADD CONSTRAINT f FOREIGN KEY (name) " +
			"REFERENCES trap.o", kind: outside, object: "constraint f on table pglock.jobs"},
		"a child":  {after: "CREATE TABLE trap.child () INHERITS (pglock.names)", kind: attached, object: "table trap.child"},
		"a policy": {after: "CREATE POLICY p ON pglock.names USING (trap.spring())", kind: attached, object: "policy p on table pglock.names"},
		"a rule": {after: "CREATE RULE r AS ON INSERT TO pglock.names DO ALSO SELECT trap.spring()", kind: attached,
			object: "rule r on table pglock.names"},
		"statistics elsewhere": {after: "CREATE STATISTICS trap.s ON trap.fixed(key), name FROM pglock.names", kind: attached,
			object: "statistics object trap.s"},
		"an operator": {after: "CREATE OPERATOR pglock.|| (FUNCTION = trap.cat, LEFTARG = text, RIGHTARG = bigint)", kind: attached,
			object: "operator pglock.||(text,bigint)"},
		"a table of the tenant's": {after: "CREATE TABLE pglock.more (); ALTER TABLE pglock.more OWNER TO {}", kind: owner,
			object: "table pglock.more"},
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Installed(t)
			tenant, admin := db.Tenant(t), db.Connect(t)
			tenant.Exec(maker)
			as := func(sql string) string {
				return strings.ReplaceAll(sql, "{}", pgx.Identifier{tenant.Name()}.Sanitize())
			}
			execute(t, admin, as("GRANT USAGE ON SCHEMA pglock TO {}; ALTER DATABASE "+db.Name()+" SET search_path = ''; "+test.admin))
			tenant.Exec(test.tenant)
			execute(t, admin, as(test.after))
			found := find(t, admin)
			if !slices.ContainsFunc(found, func(f trust.Finding) bool {
				return strings.Contains(f.String(), test.kind) && strings.Contains(f.Object, test.object)
			}) {
				t.Errorf("found %q; want %s, %s", found, test.kind, test.object)
			}
			for _, f := range found {
				if err := error(&f.UntrustedError); !errors.Is(err, driver.ErrUntrusted) || !strings.Contains(err.Error(), f.Object) {
					t.Errorf("%q: %v", f, err)
				}
			}
			for round := 0; len(found) > 0 && round < 3; round++ {
				for _, f := range found {
					_, _ = admin.Exec(t.Context(), f.Mend) // one may end several
				}
				found = find(t, admin)
			}
			if len(found) > 0 {
				t.Errorf("after the statements that should end it: %q", found)
			}
		})
	}
}

func TestTrustOfOwners(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	admin, owner, app := db.Connect(t), connect(t, db.Role(t, "owner")), connect(t, db.Role(t, "app"))
	want := func(what string, conn *pgx.Conn, trusted bool, named ...string) {
		t.Helper()
		found := find(t, conn, named...)
		if (len(found) == 0) != trusted {
			t.Errorf("%s: %q", what, found)
		}
		if !trusted && (len(found) != 1 || found[0].Object != "schema pglock" || found[0].Owner != user(owner)) {
			t.Errorf("%s: %q", what, found)
		}
	}
	want("a superuser's schema", app, true)
	want("a superuser's own", admin, true)
	execute(t, admin, "ALTER SCHEMA pglock OWNER TO "+user(owner))
	execute(t, admin, fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", db.Name(), user(owner)))
	execute(t, admin, migrations.LockerGrants(user(app))+migrations.WatcherGrants(user(app)))
	want("another role's, whoever owns the database", app, false)
	want("another role's, used by a superuser", admin, false)
	want("beside another role that is named", app, false, user(app))
	want("a named owner", app, true, "postgres", user(owner))
	want("its own", owner, true)
	execute(t, admin, fmt.Sprintf("GRANT %s TO %s", user(owner), user(app)))
	want("of a role that the current one is a member of", app, false)
	// RESET ROLE leads back.
	execute(t, app, "SET ROLE "+user(owner))
	want("its own, after SET ROLE", app, false)
	want("its own, after SET ROLE, named", app, true, user(owner))
	execute(t, admin, "SET SESSION AUTHORIZATION "+user(owner))
	want("its own, in a session that a superuser has handed over", admin, false)
	if _, err := trust.Look(t.Context(), app, []string{"no-such-role"}); !errors.Is(err, trust.ErrUnknownRole) {
		t.Errorf("a role that does not exist: %v", err)
	}
}

// An owner who is not trusted can make any number of objects, of which none is looked at.
func TestTrustOfAPlantedSchemaIsFoundWithoutALookInside(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.PlantSchema(migrations.Latest())
	admin := connect(t, db.ConnString())
	if found := find(t, admin); len(found) == 0 || found[0].Object != "schema pglock" || found[0].Owner != tenant.Name() ||
		slices.ContainsFunc(found, func(f trust.Finding) bool { return strings.Contains(f.Object, "pglock.") }) {
		t.Errorf("found %q", found)
	}
	execute(t, admin, "DROP SCHEMA pglock CASCADE")
	if looked, err := trust.Look(t.Context(), admin, nil); err != nil || looked.Schema != 0 || looked.Err() != nil {
		t.Errorf("without a schema: %v, %v", looked, err)
	}
	_ = admin.Close(t.Context())
	tenant.WantNothingGained("after the looks")
}

// A use finds a schema that took the place of the one that was looked at, in an old snapshot too.
func TestTrustOfASchemaThatIsReplacedAfterTheLook(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	tenant, admin := db.Tenant(t), db.Connect(t)
	use := func() error {
		batch := &pgx.Batch{}
		check := trust.Queue(batch, nil)
		batch.Queue("SELECT pglock.register('a')")
		if err := admin.SendBatch(t.Context(), batch).Close(); err != nil {
			return sqlstate.ExplainSchema(check.Err(err))
		}
		return nil
	}
	must.Succeed(t, use())
	execute(t, admin, "DROP SCHEMA pglock CASCADE")
	if err := use(); !errors.Is(err, driver.ErrSchemaMissing) {
		t.Errorf("after the schema was dropped: %v", err)
	}
	execute(t, admin, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	tenant.PlantSchema(1)
	if err := use(); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("in an old snapshot: %v", err)
	}
	execute(t, admin, "ROLLBACK")
	if err := use(); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("after another took its place: %v", err)
	}
	_ = admin.Close(t.Context())
	tenant.WantNothingGained("after the uses")
}

// The traps of these tests do spring.
func TestTrapsSpring(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plant func(*testenv.Tenant)
		sql   string
	}{
		"the view names":      {func(c *testenv.Tenant) { c.PlantSchema(1) }, "SELECT * FROM pglock.names"},
		"a trigger":           {func(c *testenv.Tenant) { c.PlantSchema(1) }, "INSERT INTO pglock.jobs VALUES ('a')"},
		"register, planned":   {func(c *testenv.Tenant) { c.PlantSchema(1) }, "EXPLAIN SELECT pglock.register('a')"},
		"an operator":         {func(c *testenv.Tenant) { c.PlantSearchPath() }, "SELECT pg_backend_pid() = 1"},
		"an aggregate":        {func(c *testenv.Tenant) { c.PlantSearchPath() }, "SELECT count(*)"},
		"a type":              {func(c *testenv.Tenant) { c.PlantSearchPath() }, "SELECT 'a'::text"},
		"operators of public": {func(c *testenv.Tenant) { c.PlantOperators("public") }, "SELECT 'a'::text || 1::bigint"},
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			tenant := db.Tenant(t)
			test.plant(tenant)
			tenant.WantNothingGained("before")
			conn := connect(t, db.ConnString())
			execute(t, conn, test.sql)
			_ = conn.Close(t.Context())
			testenv.WaitUntil(t, "the trap has sprung", func() bool {
				super, calls := tenant.Gained()
				return super && calls > 0
			})
		})
	}
}
