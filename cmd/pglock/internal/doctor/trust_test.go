package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
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

// What keeps the schema from being used has a finding each, whose statement ends it.
func TestWhatKeepsTheSchemaFromBeingUsed(t *testing.T) {
	db := testenv.Installed(t)
	connString := db.Role(t, "app")
	app := user(t, connString)
	execute(t, db, migrations.LockerGrants(app)+migrations.WatcherGrants(app))
	want(t, examine(t, db.ConnString(), time.Minute), "trust", doctor.OK, `the role "`+user(t, db.ConnString())+`"`)
	for sql, says := range map[string]string{
		"GRANT TRIGGER ON pglock.names TO " + app:                                                                      `role "` + app + `" has the right TRIGGER on TABLE pglock.names`,
		"GRANT UPDATE (name) ON pglock.jobs TO PUBLIC":                                                                 `role "PUBLIC" has the right UPDATE`,
		"CREATE POLICY p ON pglock.names USING (true)":                                                                 "policy p on table pglock.names is nothing that pglock makes",
		"CREATE FUNCTION pglock.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION pglock.f() OWNER TO " + app: "function pglock.f() belongs",
	} {
		execute(t, db, sql)
		execute(t, db, want(t, examine(t, db.ConnString(), time.Minute), "trust", doctor.Problem, says).SQL...)
		want(t, examine(t, db.ConnString(), time.Minute), "trust", doctor.OK)
	}
	execute(t, db, "ALTER SCHEMA pglock OWNER TO "+quote(app))
	want(t, examine(t, connString, time.Minute), "trust", doctor.OK, `the role "`+app+`"`)
	for what, other := range map[string]string{"a superuser": db.ConnString(), "after SET ROLE": asRole(db.ConnString(), app)} {
		f := want(t, examine(t, other, time.Minute), "trust", doctor.Problem, `schema pglock belongs to role "`+app+`"`, "--trust-owner")
		if len(f.SQL) > 0 || strings.Contains(f.Why, "which has logged in") != (what == "after SET ROLE") {
			t.Errorf("%s: %+v", what, f)
		}
	}
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
