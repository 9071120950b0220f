package migrationtools

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	"github.com/jackc/pgx/v5"
	tern "github.com/jackc/tern/v2/migrate"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// printing says how each tool applies the files that are printed for it to a database of version from, and undoes them.
var printing = map[string]struct {
	up, down func(t *testing.T, connString string, from uint)
}{
	"goose": {
		up: func(t *testing.T, connString string, from uint) {
			file := migrations.File{Format: migrations.FormatGoose, From: from, Down: true}
			_, err := gooseProvider(t, open(t, connString), file).Up(t.Context())
			must.Succeed(t, err)
		},
		down: func(t *testing.T, connString string, from uint) {
			file := migrations.File{Format: migrations.FormatGoose, From: from, Down: true}
			_, err := gooseProvider(t, open(t, connString), file).Down(t.Context())
			must.Succeed(t, err)
		},
	},
	"Atlas": {
		up: func(t *testing.T, connString string, from uint) {
			applyByAtlas(t, open(t, connString), migrations.File{Format: migrations.FormatAtlas, From: from})
		},
		down: func(t *testing.T, connString string, from uint) {
			applyByAtlas(t, open(t, connString), migrations.File{Format: migrations.FormatAtlas, From: from, Down: true})
		},
	},
	"dbmate": {
		up: func(t *testing.T, connString string, from uint) {
			must.Succeed(t, dbmateWithFile(t, connString, from).Migrate())
		},
		down: func(t *testing.T, connString string, from uint) {
			must.Succeed(t, dbmateWithFile(t, connString, from).Rollback())
		},
	},
	"tern": {
		up:   func(t *testing.T, connString string, from uint) { migrateByTern(t, connString, from, 1) },
		down: func(t *testing.T, connString string, from uint) { migrateByTern(t, connString, from, 0) },
	},
}

func TestPrintedFilesLeadFromAVersionToTheLatestAndBack(t *testing.T) {
	fresh := testenv.Database(t)
	must.Succeed(t, migrations.Up(t.Context(), fresh.Pool(t)))
	want := definitions(t, fresh)
	for name, tool := range printing {
		for _, from := range []uint{0, 8} {
			t.Run(name, func(t *testing.T) {
				db := testenv.Database(t)
				for _, file := range ups(t)[:from] {
					_, err := db.Pool(t).Exec(t.Context(), read(t, file))
					must.Succeed(t, err)
				}
				tool.up(t, db.ConnString(), from)
				wantVersion(t, db, migrations.Latest())
				if got := definitions(t, db); got != want {
					t.Errorf("from version %d it has made\n%s\nUp makes\n%s", from, got, want)
				}
				tool.down(t, db.ConnString(), from)
				wantVersion(t, db, from)
			})
		}
	}
}

func TestPrintedFileForDbmateNeedsNoWayBack(t *testing.T) {
	db := testenv.Database(t)
	text := printed(t, migrations.File{Format: migrations.FormatDbmate})
	must.Succeed(t, newDbmate(t, db.ConnString(), fstest.MapFS{"20260101000000_pglock.sql": {Data: []byte(text)}}).Migrate())
	wantVersion(t, db, migrations.Latest())
}

func wantVersion(t *testing.T, db *testenv.DB, want uint) {
	t.Helper()
	version, err := migrations.Version(t.Context(), db.Pool(t))
	if want == 0 && errors.Is(err, pglock.ErrSchemaMissing) {
		return
	}
	if version != want || err != nil {
		t.Errorf("the version is %d, %v, want %d", version, err, want)
	}
}

func dbmateWithFile(t *testing.T, connString string, from uint) *dbmate.DB {
	t.Helper()
	text := printed(t, migrations.File{Format: migrations.FormatDbmate, From: from, Down: true})
	return newDbmate(t, connString, fstest.MapFS{"20260101000000_pglock.sql": {Data: []byte(text)}})
}

// migrateByTern runs one file with both directions, as tern expects it.
func migrateByTern(t *testing.T, connString string, from uint, target int32) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, conn.Close(context.Background())) }()
	migrator, err := tern.NewMigrator(t.Context(), conn, "public.schema_version")
	must.Succeed(t, err)
	text := printed(t, migrations.File{From: from}) + "\n---- create above / drop below ----\n\n" +
		printed(t, migrations.File{From: from, Down: true})
	must.Succeed(t, migrator.LoadMigrations(fstest.MapFS{"001_pglock.sql": {Data: []byte(text)}}))
	must.Succeed(t, migrator.MigrateTo(t.Context(), target))
}

func printed(t *testing.T, file migrations.File) string {
	t.Helper()
	var text strings.Builder
	must.Succeed(t, migrations.PrintFile(&text, file))
	return text.String()
}
