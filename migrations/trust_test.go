package migrations_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func TestTrustAPlantedSchemaIsRefusedBeforeItIsTouched(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	tenant.PlantSearchPath()
	tenant.PlantSchema(migrations.Latest())
	pool := db.Pool(t)
	_, versionErr := migrations.Version(t.Context(), pool)
	for what, err := range map[string]error{
		"Up": migrations.Up(t.Context(), pool), "Down": migrations.Down(t.Context(), pool), "Version": versionErr,
		"Up, with another owner trusted": migrations.Up(t.Context(), pool, migrations.WithTrustedOwner(user(pool))),
	} {
		var untrusted *driver.UntrustedError
		if !errors.As(err, &untrusted) || untrusted.Owner != tenant.Name() || untrusted.Object != "schema pglock" {
			t.Errorf("%s: %v", what, err)
		} else {
			wantMentioned(t, err, db.Name(), tenant.Name())
		}
	}
	execute(t, pool, "DROP SCHEMA pglock CASCADE")
	mustUp(t, pool)
	wantVersion(t, pool, migrations.Latest())
	if err := migrations.Down(t.Context(), pool); err != nil {
		t.Error(err)
	}
	pool.Close()
	tenant.WantNothingGained("after everything that package migrations does")
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
		if _, err := migrations.Version(t.Context(), owner, option); err == nil || errors.As(err, new(*driver.UntrustedError)) {
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
	if must.One[bool](t, pool, "SELECT to_regnamespace('pglock') IS NOT NULL") {
		t.Error("there is a schema")
	}
	if err := migrations.Up(t.Context(), pool, migrations.WithTrustedOwner(user(owner))); err != nil {
		t.Errorf("Up with the owner trusted: %v", err)
	}
}
