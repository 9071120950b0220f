package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

func TestMigrateUpAndDown(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	latest := fmt.Sprintf("%d\n", migrations.Latest())
	wantVersion := func(code int, stdout, stderr string) {
		t.Helper()
		r := on(t, db, "migrate", "version").run()
		wantCode(t, r, code)
		wantText(t, r.stderr, stderr)
		if r.stdout != stdout {
			t.Errorf("the version is %q, want %q", r.stdout, stdout)
		}
	}
	wantVersion(1, "", `schema pglock is not installed in database "`+db.Name())
	for range 2 {
		r := on(t, db, "migrate", "up").run()
		wantCode(t, r, 0)
		wantText(t, r.stderr, "/"+db.Name()+": schema pglock has version "+strings.TrimSpace(latest))
	}
	wantVersion(0, latest, "/"+db.Name())

	r := on(t, db, "migrate", "down").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "--yes", "/"+db.Name())
	wantVersion(0, latest, "")
	for _, want := range []string{": schema pglock was removed", ": schema pglock is not installed, so nothing was removed"} {
		r := on(t, db, "migrate", "down", "--yes").run()
		wantCode(t, r, 0)
		wantText(t, r.stderr, want)
	}
	wantVersion(1, "", "pglock migrate up")
}

func TestMigratePrintWritesForATool(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "migrate", "print").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "-- +goose Up\n", "-- migrate:up\n", "CREATE SCHEMA pglock", `GRANT USAGE ON SCHEMA pglock TO "app"`)
	r = command(t, nil, "migrate", "print", "--down").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "DROP SCHEMA pglock")
}

func TestMigrateSaysWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	r := command(t, []string{"DATABASE_URL=" + db.Role(t, "pglock_poor")}, "migrate", "up").run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "may not create schema pglock", "GRANT CREATE ON DATABASE")
	role := db.Role(t, "pglock_owner")
	config, err := pgx.ParseConfig(role)
	must.Succeed(t, err)
	execute(t, db, "GRANT CREATE ON DATABASE "+db.Name()+" TO "+config.User)
	r = command(t, []string{"DATABASE_URL=" + role}, "migrate", "up").run()
	wantCode(t, r, 0)
	wantText(t, r.stderr, `WithTrustedOwner("`+config.User+`"), --trust-owner `+config.User)
}
