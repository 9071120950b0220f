package migrationtools

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	golangmigrate "github.com/golang-migrate/migrate/v4"
	"github.com/jackc/pgx/v5"
	tern "github.com/jackc/tern/v2/migrate"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// tools says how each tool applies the file, and undoes it if it takes a way back from another file.
var tools = map[string]struct {
	up, down func(t *testing.T, connString string)
}{
	"goose": {
		up: func(t *testing.T, connString string) {
			_, err := gooseProvider(t, open(t, connString)).Up(t.Context())
			must.Succeed(t, err)
		},
	},
	"golang-migrate": {
		up:   func(t *testing.T, connString string) { byGolangMigrate(t, connString, (*golangmigrate.Migrate).Up) },
		down: func(t *testing.T, connString string) { byGolangMigrate(t, connString, (*golangmigrate.Migrate).Down) },
	},
	"Atlas": {
		up:   func(t *testing.T, connString string) { applyByAtlas(t, open(t, connString), "up") },
		down: func(t *testing.T, connString string) { applyByAtlas(t, open(t, connString), "down") },
	},
	"dbmate": {
		up: func(t *testing.T, connString string) { must.Succeed(t, newDbmate(t, connString).Migrate()) },
	},
	"tern": {
		up:   func(t *testing.T, connString string) { migrateByTern(t, connString, 1) },
		down: func(t *testing.T, connString string) { migrateByTern(t, connString, 0) },
	},
}

func TestTheFileOfEachToolInstallsTheSchema(t *testing.T) {
	fresh := testenv.Installed(t)
	want := definitions(t, fresh)
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			tool.up(t, db.ConnString())
			if version, err := migrations.Version(t.Context(), db.Pool(t)); version != migrations.Latest() || err != nil {
				t.Errorf("the version is %d, %v", version, err)
			}
			if got := definitions(t, db); got != want {
				t.Errorf("it has made\n%s\nUp makes\n%s", got, want)
			}
			if tool.down == nil {
				return
			}
			tool.down(t, db.ConnString())
			if _, err := migrations.Version(t.Context(), db.Pool(t)); !errors.Is(err, pglock.ErrSchemaMissing) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// migrateByTern runs one file with both directions, as tern expects it.
func migrateByTern(t *testing.T, connString string, target int32) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, conn.Close(context.Background())) }()
	migrator, err := tern.NewMigrator(t.Context(), conn, "public.schema_version")
	must.Succeed(t, err)
	text := sqlFile(t, "up") + "\n---- create above / drop below ----\n\n" + sqlFile(t, "down")
	must.Succeed(t, migrator.LoadMigrations(fstest.MapFS{"001_pglock.sql": {Data: []byte(text)}}))
	must.Succeed(t, migrator.MigrateTo(t.Context(), target))
}
