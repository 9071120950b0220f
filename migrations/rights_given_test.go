package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// generous are the default privileges of an administrator who grants everything on what will be made.
func generous(app string) string {
	return strings.ReplaceAll(`
		ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {app} WITH GRANT OPTION;
		ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
		ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO {app}, PUBLIC;
		ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO {app};
		ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {app} WITH GRANT OPTION`, "{app}", app)
}

// excessRights is what is left of rights with which a role can do harm.
const excessRights = `
SELECT coalesce(string_agg(concat_ws(' ', o.name, a.grantee::regrole, a.privilege_type), E'\n'), '')
FROM (SELECT nspname::text, nspowner, nspacl FROM pg_namespace WHERE nspname = 'pglock'
      UNION ALL SELECT relname, relowner, relacl FROM pg_class WHERE relnamespace = 'pglock'::regnamespace
      UNION ALL SELECT concat(attrelid::regclass, '.', attname), relowner, attacl
      FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid WHERE relnamespace = 'pglock'::regnamespace
) AS o (name, owner, acl), aclexplode(o.acl) AS a
WHERE a.grantee <> o.owner AND a.privilege_type NOT IN ('USAGE', 'SELECT')`

func wantNoExcess(t *testing.T, owner querier, after string) {
	t.Helper()
	if rights := must.One[string](t, owner, excessRights); rights != "" {
		t.Errorf("after %s these rights are left:\n%s", after, rights)
	}
}

func TestDefaultPrivilegesGiveNoRightsThatDoHarm(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(*testing.T, *testenv.DB, *pgxpool.Pool){
		"Up":       func(t *testing.T, _ *testenv.DB, owner *pgxpool.Pool) { mustUp(t, owner) },
		"the file": func(t *testing.T, db *testenv.DB, _ *pgxpool.Pool) { install(t, db.Connect(t), "up") },
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			owner, app := db.Pool(t), poolAs(t, db.Role(t, "app"))
			execute(t, db.Connect(t), generous(user(app)))
			install(t, db, owner)
			wantNoExcess(t, owner, name)
			for _, sql := range []string{
				"CREATE TRIGGER t BEFORE INSERT ON pglock.names FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
				"CREATE TABLE pglock.mine ()", "DELETE FROM pglock.once_records", "SELECT setval('pglock.fence', 1)",
			} {
				_, err := app.Exec(t.Context(), sql)
				wantRefused(t, sql, err)
			}
			if err := migrations.Down(t.Context(), owner); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUpTakesAwayRightsThatDoHarmAndLeavesTheGrants(t *testing.T) {
	t.Parallel()
	db, owner := installed(t)
	app, other := poolAs(t, db.Role(t, "app")), poolAs(t, db.Role(t, "other"))
	grants := func(role string) string {
		return migrations.LockerGrants(role) + migrations.WatcherGrants(role)
	}
	execute(t, owner, grants(user(app)))
	asGranted := catalog(t, db.Connect(t))
	execute(t, owner, fmt.Sprintf(`
		GRANT INSERT (key), UPDATE (name), REFERENCES (key) ON pglock.names TO %[1]s, PUBLIC;
		GRANT TRIGGER, TRUNCATE ON pglock.names TO %[1]s WITH GRANT OPTION;
		GRANT CREATE ON SCHEMA pglock TO %[1]s WITH GRANT OPTION;
		GRANT UPDATE ON SEQUENCE pglock.fence TO PUBLIC;
		GRANT ALL ON pglock.locks TO PUBLIC; REVOKE SELECT ON pglock.locks FROM PUBLIC`, user(app)))
	execute(t, app, fmt.Sprintf(`GRANT TRIGGER ON pglock.names TO %[1]s; GRANT CREATE ON SCHEMA pglock TO %[1]s`, user(other)))

	excess := must.One[string](t, owner, excessRights)
	if err := migrations.Up(t.Context(), app); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("another role's Up: %v", err)
	}
	if now := must.One[string](t, owner, excessRights); now != excess || now == "" {
		t.Errorf("another role's Up left\n%s\nof\n%s", now, excess)
	}
	mustUp(t, owner)
	wantNoExcess(t, owner, "Up")
	if now := catalog(t, db.Connect(t)); now != asGranted {
		t.Errorf("with the documented grants the catalog was\n%s\nand is now\n%s", asGranted, now)
	}
}
