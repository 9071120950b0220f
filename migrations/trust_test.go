package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestTrustAPlantedSchemaIsRefusedBeforeItIsTouched(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*testenv.Tenant){
		"at the last version":       func(tenant *testenv.Tenant) { tenant.PlantSchema(migrations.Latest()) },
		"on a search_path of traps": func(tenant *testenv.Tenant) { tenant.PlantSearchPath(); tenant.PlantSchema(2) },
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			tenant := db.Tenant(t)
			plant(tenant)
			pool := db.Pool(t)
			for what, err := range map[string]error{
				"Up":                             migrations.Up(t.Context(), pool),
				"Down":                           migrations.Down(t.Context(), pool),
				"Version":                        func() error { _, err := migrations.Version(t.Context(), pool); return err }(),
				"Up, with another owner trusted": migrations.Up(t.Context(), pool, migrations.WithTrustedOwner(user(pool))),
			} {
				var untrusted *driver.UntrustedError
				if !errors.As(err, &untrusted) || untrusted.Owner != tenant.Name() || untrusted.Object != "schema pglock" {
					t.Errorf("%s: %v", what, err)
				} else {
					wantMentioned(t, err, db.Name(), tenant.Name())
				}
			}
			pool.Close()
			tenant.WantNothingGained("after everything that package migrations does")
		})
	}
}

func TestTrustOnASearchPathOfTraps(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	pool := db.Pool(t)
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Error(err)
	}
	pool.Close()
	tenant.WantNothingGained("after up and down")
}

func TestTrustOfASeparateOwner(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	owner, app := poolAs(t, db.Role(t, "owner")), poolAs(t, db.Role(t, "app"))
	execute(t, db.Connect(t), fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", db.Name(), user(owner)))
	mustUp(t, owner)
	execute(t, owner, migrations.LockerGrants(user(app)))
	if _, err := migrations.Version(t.Context(), app); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("without the option: %v", err)
	}
	version, err := migrations.Version(t.Context(), app, migrations.WithTrustedOwner(user(owner)))
	if err != nil || version != migrations.Latest() {
		t.Errorf("with the option: %d, %v", version, err)
	}
	for what, option := range map[string]migrations.Option{
		"a role that does not exist": migrations.WithTrustedOwner("no such role"), "no name": migrations.WithTrustedOwner(""),
		"nil": nil,
	} {
		if _, err := migrations.Version(t.Context(), owner, option); err == nil || errors.Is(err, driver.ErrUntrusted) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fresh := testenv.Database(t).Pool(t)
	if err := migrations.Up(t.Context(), fresh, migrations.WithTrustedOwner("no such role")); err == nil {
		t.Error("without a schema a role that does not exist is accepted")
	}
}

// The database's owner can set the role that a superuser's sessions begin with.
func TestTrustAfterSetRoleNothingIsMadeForARoleThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	owner := poolAs(t, db.Role(t, "owner"))
	execute(t, db.Connect(t), fmt.Sprintf("GRANT CREATE ON DATABASE %[1]s TO %[2]s; ALTER DATABASE %[1]s SET role = %[2]s",
		db.Name(), user(owner)))
	pool := db.Pool(t)
	if err := migrations.Up(t.Context(), pool); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("Up: %v", err)
	}
	if one[bool](t, pool, "SELECT to_regnamespace('pglock') IS NOT NULL") {
		t.Error("there is a schema")
	}
	if err := migrations.Up(t.Context(), pool, migrations.WithTrustedOwner(user(owner))); err != nil {
		t.Errorf("Up with the owner trusted: %v", err)
	}
}

// definitions returns the definitions of all objects that have code.
func definitions(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	return one[string](t, conn, `
		SELECT string_agg(line, E'\n' ORDER BY line) FROM (
			SELECT pg_get_viewdef(c.oid) FROM pg_class AS c
			WHERE c.relnamespace = 'pglock'::regnamespace AND c.relkind = 'v'
			UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace = 'pglock'::regnamespace
			UNION ALL SELECT c.conname || ' ' || pg_get_constraintdef(c.oid) || ' ' ||
				coalesce(obj_description(c.oid, 'pg_constraint'), '')
			FROM pg_constraint AS c WHERE c.connamespace = 'pglock'::regnamespace
			UNION ALL SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = d.adrelid
			WHERE c.relnamespace = 'pglock'::regnamespace
		) AS definition (line)`)
}

// The file sets search_path, so it uses none of the traps there.
func TestTheFileTakesNothingFromTheSearchPath(t *testing.T) {
	t.Parallel()
	fresh := testenv.Database(t)
	mustUp(t, fresh.Pool(t))
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.PlantOperators("public")
	conn := db.Connect(t)
	install(t, conn, "up")
	if got := one[string](t, conn, "SELECT pg_catalog.current_setting('search_path')"); got != "trap, public, pg_catalog" {
		t.Errorf("search_path is %s afterwards", got)
	}
	execute(t, conn, "SET search_path = pg_catalog")
	if got, want := definitions(t, conn), definitions(t, fresh.Connect(t)); got != want {
		t.Errorf("on a search_path of traps\n%s\nelsewhere\n%s", got, want)
	}
	_ = conn.Close(context.Background())
	tenant.WantNothingGained("after the files")
}

// A role that plants a schema can lock its tables, too. No call waits for that.
func TestTrustAPlantedSchemaThatIsLockedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSchema(migrations.Latest())
	locked, err := pgx.Connect(t.Context(), tenant.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locked.Close(context.Background()) })
	if _, err := locked.Exec(t.Context(), "BEGIN; LOCK TABLE pglock.schema_migrations"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pool := db.Pool(t)
	if _, err := migrations.Version(ctx, pool); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("version: %v", err)
	}
	if err := migrations.Up(ctx, pool); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("up: %v", err)
	}
	locker, err := pglock.New(pool, pglock.WithNames())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Close(context.Background()) }()
	if err := locker.Ping(ctx); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("ping: %v", err)
	}
}
