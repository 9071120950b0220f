package trust_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/migrations"
)

// The owner of the database is trusted only by a role that has nothing to lose elsewhere, and never by a program that
// does not need it.
func TestTrustOfTheDatabasesOwnerByARoleWithRightsElsewhere(t *testing.T) {
	db := testenv.Installed(t)
	admin := db.Connect(t)
	owner, app := connect(t, db.Role(t, "owner")), connect(t, db.Role(t, "app"))
	payroll := quote(user(connect(t, db.Role(t, "payroll"))))
	elsewhere := quote(testenv.Database(t).Name())
	names := strings.NewReplacer("{app}", quote(user(app)), "{owner}", quote(user(owner)),
		"{payroll}", payroll, "{elsewhere}", elsewhere, "{database}", quote(db.Name()))
	execute(t, admin, names.Replace("ALTER DATABASE {database} OWNER TO {owner}; ALTER SCHEMA pglock OWNER TO {owner};"+
		"GRANT CONNECT ON DATABASE {database} TO {app};")+migrations.LockerGrants(user(app)))
	for _, test := range []struct{ with, give, take, why string }{
		{"nothing", "", "", ""},
		{"CREATEDB", "ALTER ROLE {app} CREATEDB", "ALTER ROLE {app} NOCREATEDB", "is privileged"},
		{"a role", "GRANT {payroll} TO {app}", "", "is in a role"},
		{"a role that the owner has", "GRANT {payroll} TO {owner}", "", ""},
		{"ADMIN OPTION on it", "GRANT {payroll} TO {app} WITH ADMIN OPTION", "REVOKE {payroll} FROM {app}", "may grant a role"},
		{"a right on a database", "GRANT CONNECT ON DATABASE {elsewhere} TO {app}", "", "outside"},
		{"that database of this owner", "ALTER DATABASE {elsewhere} OWNER TO {owner}", "", ""},
		{"a database", "ALTER DATABASE {elsewhere} OWNER TO {app}", "ALTER DATABASE {elsewhere} OWNER TO {owner}", "outside"},
		{"nothing again", "", "", ""},
	} {
		execute(t, admin, names.Replace(test.give))
		roles, err := trust.FindRoles(t.Context(), app)
		if err != nil || !strings.Contains(roles.Outside, test.why) || (roles.Outside == "") != (test.why == "") {
			t.Errorf("with %s: %q, %v", test.with, roles.Outside, err)
		}
		if err := check(t, app, nil); test.why != "" {
			wantUntrusted(t, err, "schema pglock", user(owner))
		} else if err != nil {
			t.Errorf("with %s: %v", test.with, err)
		}
		execute(t, admin, names.Replace(test.take))
	}
	found, err := trust.Find(t.Context(), app, trust.Owners{NotDatabase: true})
	if err != nil || len(found) == 0 || found[0] != (trust.Finding{Object: "schema pglock", Owner: user(owner)}) {
		t.Errorf("by a program that does not need the owner: %v, %v", found, err)
	}
}

// Since PostgreSQL 16 a member may have the rights of a role, but not its attributes, since it cannot become it.
func TestTrustOfAMemberThatCannotBecomeTheRole(t *testing.T) {
	db := testenv.Installed(t)
	admin := db.Connect(t)
	if admin.PgConn().ParameterStatus("server_version") < "16" {
		t.Skip("before PostgreSQL 16 every member can become the role")
	}
	member, app := connect(t, db.Role(t, "member")), connect(t, db.Role(t, "app"))
	execute(t, admin, "ALTER SCHEMA pglock OWNER TO "+quote(user(member))+";"+migrations.LockerGrants(user(app)))
	for _, options := range []string{"INHERIT TRUE, SET FALSE", "INHERIT FALSE, SET FALSE"} {
		execute(t, admin, fmt.Sprintf("GRANT %s TO %s WITH %s", quote(user(app)), quote(user(member)), options))
		wantUntrusted(t, check(t, app, nil), "schema pglock", user(member))
	}
	for _, options := range []string{"INHERIT FALSE, SET TRUE", "SET FALSE, ADMIN TRUE"} {
		execute(t, admin, fmt.Sprintf("GRANT %s TO %s WITH %s", quote(user(app)), quote(user(member)), options))
		if err := check(t, app, nil); err != nil {
			t.Errorf("with %s: %v", options, err)
		}
	}
}
