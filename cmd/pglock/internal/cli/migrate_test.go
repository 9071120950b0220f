package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
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

func TestMigrateThePrintedMigrationsInstallTheSchema(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	r := command(t, nil, "migrate", "print").run()
	wantCode(t, r, 0)
	execute(t, db, "BEGIN; "+r.stdout+"; COMMIT")
	wantCode(t, on(t, db, "migrate", "version").run(), 0)
	wantText(t, r.stdout, `--   GRANT USAGE ON SCHEMA pglock TO "app";`, `--   GRANT USAGE ON SCHEMA pglock TO "watcher";`)
}

func TestMigratePrintWritesForATool(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"--format goose":           {"-- +goose Up\n", "000001_schema.up.sql", `GRANT USAGE ON SCHEMA pglock TO "app"`},
		"--format goose --down":    {"-- +goose Up\n", "-- +goose Down\n", "DROP SCHEMA pglock"},
		"--format dbmate --from 8": {"-- migrate:up\n-- 000009_once.up.sql", "-- migrate:down\n"},
		"--format atlas":           {"-- 000001_schema.up.sql"},
		"--down --from 9":          {"-- 000010_ratelimit.down.sql", "-- 000011_fence_rows.down.sql"},
	} {
		r := command(t, nil, append([]string{"migrate", "print"}, strings.Fields(line)...)...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, want...)
	}
	for line, want := range map[string]string{
		"--format flyway":                          `unknown format "flyway"`,
		fmt.Sprint("--from ", migrations.Latest()): "there is no version after",
		"--from -1":                                "--from",
	} {
		r := command(t, nil, append([]string{"migrate", "print"}, strings.Fields(line)...)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, want)
	}
}

func TestMigrateSaysWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	r := command(t, []string{"DATABASE_URL=" + db.Role(t, "pglock_poor")}, "migrate", "up").run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "may not create schema pglock", "GRANT CREATE ON DATABASE")
}
