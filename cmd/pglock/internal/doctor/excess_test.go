package doctor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

// Rights that do harm are a problem while nothing was done with them, on a column too.
func TestRightsThatDoHarmAreReported(t *testing.T) {
	db := testenv.Installed(t)
	app := user(t, db.Role(t, "app"))
	execute(t, db, migrations.LockerGrants(app)+migrations.WatcherGrants(app)+migrations.PrunerGrants(app))
	want(t, examine(t, db.ConnString(), time.Minute), "schema-rights", doctor.OK)

	execute(t, db, "GRANT TRIGGER ON pglock.names TO "+app, "GRANT UPDATE (version) ON pglock.schema_migrations TO PUBLIC",
		"GRANT CREATE ON SCHEMA pglock TO "+app)
	f := want(t, examine(t, db.ConnString(), time.Minute), "schema-rights", doctor.Problem, app+" has TRIGGER on TABLE pglock.names",
		app+" has CREATE on SCHEMA pglock", "PUBLIC has UPDATE (version) on TABLE pglock.schema_migrations", "pglock migrate up")
	wanted := []string{"REVOKE CREATE ON SCHEMA pglock FROM " + app + " CASCADE",
		"REVOKE TRIGGER ON TABLE pglock.names FROM " + app + " CASCADE",
		"REVOKE UPDATE (version) ON TABLE pglock.schema_migrations FROM PUBLIC CASCADE"}
	slices.Sort(f.SQL)
	if !slices.Equal(f.SQL, wanted) {
		t.Errorf("the statements are %q", f.SQL)
	}
	execute(t, db, f.SQL...)
	want(t, examine(t, db.ConnString(), time.Minute), "schema-rights", doctor.OK)
}

func TestDefaultPrivilegesThatDoHarmAreReported(t *testing.T) {
	for name, install := range map[string]bool{"before the schema is installed": false, "afterwards": true} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			app := user(t, db.Role(t, "app"))
			execute(t, db, "ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, TRIGGER ON TABLES TO "+app)
			if install {
				must.Succeed(t, migrations.Up(t.Context(), db.Pool(t)))
			}
			want(t, examine(t, db.ConnString(), time.Minute), "schema-rights", doctor.Note,
				app+" has INSERT and TRIGGER on all tables of role "+user(t, db.ConnString()))
		})
	}
}
