package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

// asRole makes sessions take a role when they begin, as ALTER ROLE … SET role does.
func asRole(connString, role string) string {
	separator := "?"
	if strings.Contains(connString, "?") {
		separator = "&"
	}
	return connString + separator + "role=" + role
}

// The finding about the schema's owner agrees with the list of trusted roles, with SET ROLE and without.
func TestWhoIsTrustedDependsOnTheRoleThatHasLoggedIn(t *testing.T) {
	db := testenv.Database(t)
	pool := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	execute := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		must.Succeed(t, err)
	}
	dba, appLogin := db.Role(t, "dba"), db.Role(t, "app")
	app, member := user(t, appLogin), user(t, dba)
	execute("GRANT " + quote(app) + " TO " + quote(member))
	execute("GRANT USAGE ON SCHEMA pglock TO PUBLIC")
	execute("ALTER SCHEMA pglock OWNER TO " + quote(app))

	says := func(what, connString string, level doctor.Level, not string, parts ...string) {
		t.Helper()
		t.Log(what)
		found := want(t, examine(t, connString, time.Minute), "trust", level, parts...)
		if not != "" && strings.Contains(found.What+found.Why, not) {
			t.Errorf("the finding contains %q: %+v", not, found)
		}
	}
	itself, notItself := `trusted to own schema pglock: the role "`+app+`"`, `the role "`+app+`" is not trusted`
	says("the role itself", appLogin, doctor.OK, "not trusted", itself, "members of the role ("+member+")")
	says("a member without special rights", asRole(dba, app), doctor.OK, "not trusted", itself, member)
	says("a superuser who has taken the role", asRole(db.ConnString(), app), doctor.Problem, itself,
		notItself+`, because its code could take the rights of "`, "which has logged in")
	execute("ALTER ROLE " + quote(member) + " CREATEROLE")
	says("a member with special rights", asRole(dba, app), doctor.Problem, itself,
		notItself+`, because its code could take the rights of "`+member+`"`, "members of the role ("+member+")")
	says("the same role without it", appLogin, doctor.OK, "not trusted", itself)
	execute("ALTER ROLE " + quote(member) + " NOCREATEROLE")
	execute("GRANT " + quote(user(t, db.Role(t, "other"))) + " TO " + quote(member))
	says("a member of another role", asRole(dba, app), doctor.Problem, itself,
		notItself+`, because its code could take the rights of "`+member+`"`, "members of the role ("+member+")")
}

// The owner of a database can make every session there take a role, even a superuser's.
func TestRightsThatSetRoleHasTakenAreNotGrantedToTheOtherRole(t *testing.T) {
	db := testenv.Database(t)
	taken := asRole(db.ConnString(), user(t, db.Role(t, "app")))
	for _, name := range []string{"pg_read_all_stats", "pg_signal_backend"} {
		f := want(t, examine(t, taken, time.Minute), name, doctor.Note, "SET ROLE", user(t, db.ConnString()), "role=none")
		if len(f.SQL) != 0 {
			t.Errorf("%s: it suggests %q", name, f.SQL)
		}
		want(t, examine(t, asRole(db.ConnString(), "none"), time.Minute), name, doctor.OK)
	}
}

// Doctor executes nothing of the owner of the database, whom the role's other programs may trust.
func TestNothingOfTheDatabasesOwnerIsExecuted(t *testing.T) {
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	report := examine(t, db.Role(t, "ops"), time.Minute)
	want(t, report, "trust", doctor.OK, `the database's owner "`+tenant.Name()+`" (but not to the monitor)`)
	tenant.WantNothingGained("after doctor")
}

func TestTooManyObjectsToLookAt(t *testing.T) {
	db := testenv.Installed(t)
	execute(t, db, `DO $$ BEGIN FOR i IN 1..2001 LOOP
		EXECUTE format('CREATE FUNCTION pglock.f%s() RETURNS int LANGUAGE sql AS ''SELECT 1''', i); END LOOP; END $$`)
	want(t, examine(t, db.ConnString(), time.Minute), "trust", doctor.Problem, "too many to look at")
}
