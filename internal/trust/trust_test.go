package trust_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func check(t *testing.T, conn *pgx.Conn, owners []string, objects ...string) error {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	return trust.Check(t.Context(), tx, trust.Owners{Named: owners}, "schema_migrations", objects...)
}

func user(conn *pgx.Conn) string { return conn.Config().User }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// wantUntrusted checks that the error names the object and its owner.
func wantUntrusted(t *testing.T, err error, object, owner string) {
	t.Helper()
	var untrusted *driver.UntrustedError
	if !errors.As(err, &untrusted) || !errors.Is(err, driver.ErrUntrusted) {
		t.Fatalf("not refused: %v", err)
	}
	if untrusted.Object != object || untrusted.Owner != owner {
		t.Errorf("refused: %v; want %s of %s", err, object, owner)
	}
}

func TestTrustAFreshSchemaIsTrustedByItsOwner(t *testing.T) {
	conn := testenv.Installed(t).Connect(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe} {
		config := conn.Config().Copy()
		config.DefaultQueryExecMode = mode
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(t, c, nil); err != nil {
			t.Errorf("in mode %v: %v", mode, err)
		}
		_ = c.Close(t.Context())
	}
}

func TestTrustOfOwners(t *testing.T) {
	db := testenv.Installed(t)
	admin := db.Connect(t)
	migrator, app := connect(t, db.Role(t, "migrator")), connect(t, db.Role(t, "app"))
	execute(t, admin, "ALTER SCHEMA pglock OWNER TO "+quote(user(migrator)))
	execute(t, admin, migrations.LockerGrants(user(app))+migrations.LockerGrants(user(migrator)))
	alter := func(sql string) { t.Helper(); execute(t, admin, sql) }
	trusted := func(what string, conn *pgx.Conn, owners ...string) {
		t.Helper()
		if err := check(t, conn, owners); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	untrusted := func(what string, conn *pgx.Conn, owners ...string) {
		t.Helper()
		t.Log(what)
		wantUntrusted(t, check(t, conn, owners), "schema pglock", user(migrator))
	}
	untrusted("another role's schema", app)
	untrusted("another role's schema, used by a superuser", admin)
	untrusted("beside another trusted role", app, user(app))
	trusted("a named owner", app, "postgres", user(migrator))
	trusted("a named owner", admin, user(migrator))
	trusted("the current role's own", migrator)

	alter(fmt.Sprintf("GRANT %s TO %s", quote(user(app)), quote(user(migrator))))
	trusted("a member of the current role", app)
	alter(fmt.Sprintf("REVOKE %s FROM %s", quote(user(app)), quote(user(migrator))))
	alter(fmt.Sprintf("GRANT %s TO %s", quote(user(migrator)), quote(user(app))))
	untrusted("a role that the current one is a member of", app)
	alter(fmt.Sprintf("REVOKE %s FROM %s", quote(user(migrator)), quote(user(app))))

	alter(fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", quote(db.Name()), quote(user(migrator))))
	trusted("the database's owner", app)
	untrusted("the database's owner, used by a superuser", admin)
	for _, attribute := range []string{"CREATEROLE", "REPLICATION", "BYPASSRLS"} {
		alter(fmt.Sprintf("ALTER ROLE %s %s", quote(user(app)), attribute))
		untrusted("the database's owner, used by a role with "+attribute, app)
		alter(fmt.Sprintf("ALTER ROLE %s NO%s", quote(user(app)), attribute))
	}
	alter("GRANT pg_read_all_stats TO " + quote(user(app)))
	untrusted("the database's owner, used by a role that sees all statistics", app)
	alter("REVOKE pg_read_all_stats FROM " + quote(user(app)))
	trusted("the database's owner", app)

	// A superuser that has become an ordinary role can be turned back by code of that role.
	alter("SET ROLE " + quote(user(migrator)))
	untrusted("the current role's own, in a session of a superuser", admin)
	alter("RESET ROLE")
	alter("SET SESSION AUTHORIZATION " + quote(user(migrator)))
	untrusted("the current role's own, in a session that a superuser has handed over", admin)
	alter("RESET SESSION AUTHORIZATION")
}

// A program can log in as one role and take that of a customer. If it can take another customer's too, code of the first
// could take that one.
func TestTrustOfARoleTakenByOneThatCanTakeOthers(t *testing.T) {
	db := testenv.Installed(t)
	admin := db.Connect(t)
	login := connect(t, db.Role(t, "login"))
	customer, other := user(connect(t, db.Role(t, "customer"))), user(connect(t, db.Role(t, "other")))
	execute(t, admin, "ALTER SCHEMA pglock OWNER TO "+quote(customer))
	execute(t, admin, "GRANT USAGE ON SCHEMA pglock TO "+quote(customer))
	execute(t, admin, "GRANT SELECT ON pglock.schema_migrations TO "+quote(customer))
	execute(t, admin, fmt.Sprintf("GRANT %s TO %s", quote(customer), quote(user(login))))
	execute(t, login, "SET ROLE "+quote(customer))
	if err := check(t, login, nil); err != nil {
		t.Errorf("the only role that it can take: %v", err)
	}
	execute(t, admin, fmt.Sprintf("GRANT %s TO %s", quote(other), quote(user(login))))
	wantUntrusted(t, check(t, login, nil), "schema pglock", customer)
	if err := check(t, login, []string{customer}); err != nil {
		t.Errorf("a named owner: %v", err)
	}
	execute(t, admin, fmt.Sprintf("GRANT %s TO %s", quote(other), quote(customer)))
	if err := check(t, login, nil); err != nil {
		t.Errorf("a role that can take the others as well: %v", err)
	}
}

func TestTrustNamesARoleThatDoesNotExist(t *testing.T) {
	conn := testenv.Installed(t).Connect(t)
	err := check(t, conn, []string{"no-such-role"})
	if err == nil || !strings.Contains(err.Error(), `role "no-such-role"`) || errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("check: %v", err)
	}
	if _, err := trust.Find(t.Context(), conn, trust.Owners{Named: []string{"no-such-role"}}); !errors.Is(err, trust.ErrUnknownRole) {
		t.Errorf("find: %v", err)
	}
}

func TestTrustOfNoSchema(t *testing.T) {
	conn := testenv.Database(t).Connect(t)
	if err := check(t, conn, nil); !errors.Is(err, driver.ErrSchemaMissing) {
		t.Errorf("check: %v", err)
	}
	if found, err := trust.Find(t.Context(), conn, trust.Owners{}); err != nil || len(found) > 0 {
		t.Errorf("find: %v, %v", found, err)
	}
}

// Objects that a tenant can attach to an administrator's schema, if the administrator gave away a right, or that
// could be attached before the tenant lost it.
func TestTrustOfWhatAnObjectReaches(t *testing.T) {
	for name, test := range map[string]struct {
		grant, attach string // by the administrator, by the tenant
		hand          string // by the administrator afterwards
		object        string
		used          []string
	}{
		"a trigger": {
			"GRANT TRIGGER ON pglock.names TO %s",
			"CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW EXECUTE FUNCTION trap.trigger()", "",
			"function trap.trigger()", []string{"register", "names"},
		},
		"a trigger that executes SQL by functions of PostgreSQL's": {
			"GRANT TRIGGER ON pglock.names TO %s",
			"CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW " +
				"WHEN (query_to_xml('SELECT trap.spring()', false, false, '') IS NULL) " +
				"EXECUTE FUNCTION suppress_redundant_updates_trigger()", "",
			"trigger t on table pglock.names", []string{"register", "names"},
		},
		"a default": {
			"", "", "ALTER TABLE pglock.names ADD x bool DEFAULT trap.spring()",
			"function trap.spring()", []string{"names"},
		},
		"a check": {
			"", "", "ALTER TABLE pglock.names ADD CHECK (trap.spring()) NOT VALID",
			"function trap.spring()", []string{"names"},
		},
		"a policy": {
			"", "", "CREATE POLICY p ON pglock.names USING (trap.spring())",
			"function trap.spring()", []string{"names"},
		},
		"a rule": {
			"", "", "CREATE RULE r AS ON INSERT TO pglock.names DO ALSO SELECT trap.spring()",
			"function trap.spring()", []string{"names"},
		},
		"an index": {
			"", "CREATE FUNCTION trap.fixed(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'",
			"CREATE INDEX ON pglock.names (trap.fixed(name))",
			"function trap.fixed(text)", []string{"names"},
		},
		"statistics": {
			"", "CREATE FUNCTION trap.fixed(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'",
			"CREATE STATISTICS pglock.s ON trap.fixed(name), key FROM pglock.names",
			"function trap.fixed(text)", []string{"names"},
		},
		"a child": {
			"", "CREATE TABLE trap.child (key bigint NOT NULL, name text COLLATE \"C\" NOT NULL, first_seen timestamptz NOT NULL)",
			"ALTER TABLE trap.child ADD CONSTRAINT names_key_is_of_name CHECK (key = pglock.key(name)), " +
				"ADD CONSTRAINT names_name_fits_index CHECK (octet_length(name) <= 1024), INHERIT pglock.names",
			"table trap.child", []string{"names"},
		},
		"a foreign key": { // its table can have a deferred trigger, executed when rows of pglock.rates are deleted
			"GRANT REFERENCES ON pglock.rates TO %s",
			"CREATE TABLE trap.child (key text REFERENCES pglock.rates ON DELETE CASCADE)", "",
			"table trap.child", []string{"rate_prune", "rates"},
		},
		"an operator in a view": {
			"", "CREATE FUNCTION trap.same(bigint, bigint) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN trap.spring(); END'; " +
				"CREATE OPERATOR trap.=== (FUNCTION = trap.same, LEFTARG = bigint, RIGHTARG = bigint)",
			"CREATE VIEW pglock.more AS SELECT key OPERATOR(trap.===) 1 AS same FROM pglock.names",
			"operator trap.===(bigint,bigint)", nil,
		},
		"a domain": {
			"", "CREATE DOMAIN trap.d AS text CHECK (trap.spring())",
			"ALTER TABLE pglock.names ADD x trap.d",
			"function trap.spring()", []string{"names"},
		},
		"an object in the schema": {
			"GRANT CREATE, USAGE ON SCHEMA pglock TO %s",
			"CREATE FUNCTION pglock.key(varchar) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", "",
			"function pglock.key(character varying)", []string{"names"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Installed(t)
			tenant := db.Tenant(t)
			admin := db.Connect(t)
			if name == "statistics" && admin.PgConn().ParameterStatus("server_version") < "14" {
				t.Skip("PostgreSQL 13 has statistics of columns only")
			}
			if test.grant != "" {
				execute(t, admin, fmt.Sprintf(test.grant, quote(tenant.Name())))
				execute(t, admin, "GRANT USAGE ON SCHEMA pglock TO "+quote(tenant.Name()))
			}
			if test.attach != "" {
				tenant.Exec(test.attach)
			}
			if err := check(t, admin, nil, test.used...); err != nil && test.hand != "" {
				t.Fatalf("before: %v", err)
			}
			if test.hand != "" {
				execute(t, admin, test.hand)
			}
			err := check(t, admin, nil, test.used...)
			var untrusted *driver.UntrustedError
			if !errors.As(err, &untrusted) || untrusted.Owner != tenant.Name() {
				t.Fatalf("not refused: %v", err)
			}
			found, err := trust.Find(t.Context(), admin, trust.Owners{})
			if err != nil || !strings.Contains(fmt.Sprint(found), test.object) {
				t.Errorf("found %v, %v; want %s", found, err, test.object)
			}
			if err := check(t, admin, []string{tenant.Name()}, test.used...); err != nil {
				t.Errorf("with the tenant named: %v", err)
			}
			if test.grant == "" { // an object that is not used does not matter, unless it is in the schema
				if err := check(t, admin, nil, "fence"); err != nil {
					t.Errorf("for another object: %v", err)
				}
			}
		})
	}
}

// If any role may have made a trigger, no role is named.
func TestTrustOfATriggerThatAnyRoleCanHaveMade(t *testing.T) {
	admin := testenv.Installed(t).Connect(t)
	execute(t, admin, "GRANT TRIGGER ON pglock.names TO PUBLIC")
	if err := check(t, admin, nil); err != nil {
		t.Errorf("without a trigger: %v", err)
	}
	execute(t, admin, `CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW
		EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()`)
	wantUntrusted(t, check(t, admin, nil, "names"), "trigger t on table pglock.names", "PUBLIC")
	execute(t, admin, "REVOKE TRIGGER ON pglock.names FROM PUBLIC")
	if err := check(t, admin, nil); err != nil {
		t.Errorf("a trigger that only the owner can have made: %v", err)
	}
}

// The check works on a search_path full of traps, and executes none of them.
func TestTrustIsCheckedSafelyOnASearchPathOfTraps(t *testing.T) {
	db := testenv.Installed(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	admin := connect(t, db.ConnString())
	if err := check(t, admin, nil); err != nil {
		t.Errorf("our own schema: %v", err)
	}
	execute(t, admin, "DROP SCHEMA pglock CASCADE")
	tenant.PlantSchema(migrations.Latest())
	wantUntrusted(t, check(t, admin, nil), "schema pglock", tenant.Name())
	_ = admin.Close(t.Context())
	tenant.WantNothingGained("after the checks")
}

// If a schema is dropped and planted again while the check waits for its lock, the new one is checked.
func TestTrustOfASchemaThatIsReplacedMeanwhile(t *testing.T) {
	db := testenv.Installed(t)
	tenant := db.Tenant(t)
	admin, other := db.Connect(t), db.Connect(t)
	execute(t, other, "BEGIN; DROP SCHEMA pglock CASCADE")
	result := make(chan error, 1)
	go func() { result <- check(t, admin, nil) }()
	testenv.WaitUntil(t, "the check waits for the lock", func() bool {
		var waits bool
		err := other.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)",
			admin.PgConn().PID()).Scan(&waits)
		return err == nil && waits
	})
	execute(t, other, "COMMIT")
	if err := <-result; !errors.Is(err, driver.ErrSchemaMissing) {
		t.Errorf("after the schema was dropped: %v", err)
	}
	// In an old snapshot the schema is still there, while the name leads to another.
	execute(t, admin, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	tenant.PlantSchema(1)
	batch := &pgx.Batch{}
	trust.Queue(batch, trust.Owners{}, "schema_migrations")
	err := trust.Explain(admin.SendBatch(t.Context(), batch).Close())
	if !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("in an old snapshot: %v", err)
	}
	execute(t, admin, "ROLLBACK")
}

// The traps of these tests do spring.
func TestTrapsSpring(t *testing.T) {
	for name, test := range map[string]struct {
		plant func(*testenv.Tenant)
		sql   string
	}{
		"the view names":      {func(c *testenv.Tenant) { c.PlantSchema(1) }, "SELECT * FROM pglock.names"},
		"a trigger":           {func(c *testenv.Tenant) { c.PlantSchema(1) }, "UPDATE pglock.schema_migrations SET version = 2"},
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
			if super, calls := tenant.Gained(); !super || calls == 0 {
				t.Errorf("the trap did not spring: superuser %t, %d calls", super, calls)
			}
		})
	}
}
