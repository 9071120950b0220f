package migrationtools

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	tern "github.com/jackc/tern/v2/migrate"

	"github.com/pglock-toolkit/pglock/internal/testenv"
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
			check(t, err)
		},
		down: func(t *testing.T, connString string, from uint) {
			file := migrations.File{Format: migrations.FormatGoose, From: from, Down: true}
			_, err := gooseProvider(t, open(t, connString), file).Down(t.Context())
			check(t, err)
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
	"as dbmate": {
		up:   func(t *testing.T, connString string, from uint) { runSection(t, open(t, connString), from, "up") },
		down: func(t *testing.T, connString string, from uint) { runSection(t, open(t, connString), from, "down") },
	},
	"tern": {
		up:   func(t *testing.T, connString string, from uint) { migrateByTern(t, connString, from, 1) },
		down: func(t *testing.T, connString string, from uint) { migrateByTern(t, connString, from, 0) },
	},
}

func TestPrintedFilesLeadFromAVersionToTheLatestAndBack(t *testing.T) {
	fresh := testenv.Database(t)
	check(t, migrations.Up(t.Context(), fresh.Pool(t)))
	want := definitions(t, fresh)
	for name, tool := range printing {
		for _, from := range []uint{0, 8} {
			t.Run(name, func(t *testing.T) {
				db := testenv.Database(t)
				for _, file := range ups(t)[:from] {
					_, err := db.Pool(t).Exec(t.Context(), read(t, file))
					check(t, err)
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

// runSection does what dbmate does with a section of a file: it sends it in one piece, in a transaction.
func runSection(t *testing.T, db *sql.DB, from uint, direction string) {
	t.Helper()
	text := printed(t, migrations.File{Format: migrations.FormatDbmate, From: from, Down: true})
	up, down, ok := strings.Cut(strings.TrimPrefix(text, "-- migrate:up\n"), "\n-- migrate:down\n")
	if !ok || !strings.HasPrefix(text, "-- migrate:up\n") {
		t.Fatalf("the file has no sections:\n%.100s", text)
	}
	section := map[string]string{"up": up, "down": down}[direction]
	tx, err := db.BeginTx(t.Context(), nil)
	check(t, err)
	_, err = tx.ExecContext(t.Context(), section)
	check(t, err)
	check(t, tx.Commit())
}

// migrateByTern runs one file with both directions, as tern expects it.
func migrateByTern(t *testing.T, connString string, from uint, target int32) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	check(t, err)
	defer func() { check(t, conn.Close(context.Background())) }()
	migrator, err := tern.NewMigrator(t.Context(), conn, "public.schema_version")
	check(t, err)
	text := printed(t, migrations.File{From: from}) + "\n---- create above / drop below ----\n\n" +
		printed(t, migrations.File{From: from, Down: true})
	check(t, migrator.LoadMigrations(fstest.MapFS{"001_pglock.sql": {Data: []byte(text)}}))
	check(t, migrator.MigrateTo(t.Context(), target))
}

func printed(t *testing.T, file migrations.File) string {
	t.Helper()
	var text strings.Builder
	check(t, migrations.PrintFile(&text, file))
	return text.String()
}
