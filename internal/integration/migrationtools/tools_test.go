package migrationtools

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"ariga.io/atlas/sql/migrate"
	atlas "ariga.io/atlas/sql/postgres"
	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	_ "github.com/amacneil/dbmate/v2/pkg/driver/postgres"
	golangmigrate "github.com/golang-migrate/migrate/v4"
	pgxdriver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The file runs nothing of the tenant, and leaves the session's search_path as it was. The other tools run the same file
// (see TestTheFileOfEachToolInstallsTheSchema); on a search_path of traps, their own statements would
// already run the tenant's code.
func TestLongPrintedFileInstallsTheSameOnADatabaseOfTraps(t *testing.T) {
	fresh := testenv.Installed(t)
	want := definitions(t, fresh)
	t.Run("operators in public", func(t *testing.T) {
		wantSame(t, want, `"$user", public`, func(tenant *testenv.Tenant) { tenant.PlantOperators("public") })
	})
	t.Run("a search_path of traps", func(t *testing.T) {
		wantSame(t, want, "trap, public, pg_catalog", (*testenv.Tenant).PlantSearchPath)
	})
}

// wantSame runs the file with psql in a database with traps, and compares.
func wantSame(t *testing.T, want, searchPath string, plant func(*testenv.Tenant)) {
	t.Helper()
	db := testenv.Database(t)
	tenant := db.Tenant(t)
	plant(tenant)
	if after := byPsql(t, db.ConnString()); after != searchPath {
		t.Errorf("search_path was %s and is %s", searchPath, after)
	}
	if got := definitions(t, db); got != want {
		t.Errorf("it has made\n%s\nUp makes\n%s", got, want)
	}
	pool := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	version, err := migrations.Version(t.Context(), pool)
	if err != nil || version != migrations.Latest() {
		t.Errorf("Version = %d, %v", version, err)
	}
	pool.Close()
	tenant.WantNothingGained("after the migrations")
}

// byPsql returns the session's search_path afterwards.
func byPsql(t *testing.T, connString string) string {
	file := filepath.Join(t.TempDir(), "pglock.sql")
	must.Succeed(t, os.WriteFile(file, []byte(sqlFile(t, "up")), 0o600))
	return psql(t, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--file="+file, connString)
}

func psql(t *testing.T, arguments ...string) string {
	t.Helper()
	last := len(arguments) - 1
	arguments = slices.Insert(arguments, last, "--tuples-only", "--no-align", "--command=SHOW search_path")
	output, err := exec.Command("psql", arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, output)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

func byGolangMigrate(t *testing.T, connString string, run func(*golangmigrate.Migrate) error) {
	t.Helper()
	driver, err := pgxdriver.WithInstance(open(t, connString), &pgxdriver.Config{})
	must.Succeed(t, err)
	files, err := iofs.New(migrations.FS, ".")
	must.Succeed(t, err)
	m, err := golangmigrate.NewWithInstance("pglock", files, "pgx5", driver)
	must.Succeed(t, err)
	must.Succeed(t, run(m))
	source, database := m.Close()
	must.Succeed(t, errors.Join(source, database))
}

func gooseProvider(t *testing.T, db *sql.DB) *goose.Provider {
	t.Helper()
	files := fstest.MapFS{"20260101000000_pglock.sql": {Data: []byte(sqlFile(t, "up"))}}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	must.Succeed(t, err)
	return provider
}

func applyByAtlas(t *testing.T, db *sql.DB, direction string) {
	t.Helper()
	dir, err := migrate.NewLocalDir(t.TempDir())
	must.Succeed(t, err)
	must.Succeed(t, dir.WriteFile("20260101000000_pglock.sql", []byte(sqlFile(t, direction))))
	sum, err := dir.Checksum()
	must.Succeed(t, err)
	must.Succeed(t, migrate.WriteSumFile(dir, sum))
	tx, err := db.BeginTx(t.Context(), nil) // as Atlas's command does for each file
	must.Succeed(t, err)
	driver, err := atlas.Open(tx)
	must.Succeed(t, err)
	executor, err := migrate.NewExecutor(driver, dir, &revisions{}, migrate.WithAllowDirty(true))
	must.Succeed(t, err)
	must.Succeed(t, executor.ExecuteN(t.Context(), 0))
	must.Succeed(t, tx.Commit())
}

// revisions is where Atlas's library records the migrations that it has run; Atlas's command has a table.
type revisions struct{ all []*migrate.Revision }

func (r *revisions) Ident() *migrate.TableIdent { return &migrate.TableIdent{Name: "revisions"} }

func (r *revisions) ReadRevisions(context.Context) ([]*migrate.Revision, error) { return r.all, nil }

func (r *revisions) ReadRevision(_ context.Context, version string) (*migrate.Revision, error) {
	for _, revision := range r.all {
		if revision.Version == version {
			return revision, nil
		}
	}
	return nil, migrate.ErrRevisionNotExist
}

func (r *revisions) WriteRevision(_ context.Context, revision *migrate.Revision) error {
	r.all = slices.DeleteFunc(r.all, func(other *migrate.Revision) bool { return other.Version == revision.Version })
	r.all = append(r.all, revision)
	return nil
}

func (r *revisions) DeleteRevision(_ context.Context, version string) error {
	r.all = slices.DeleteFunc(r.all, func(other *migrate.Revision) bool { return other.Version == version })
	return nil
}

func newDbmate(t *testing.T, connString string) *dbmate.DB {
	t.Helper()
	files := fstest.MapFS{"20260101000000_pglock.sql": {Data: []byte(sqlFile(t, "up"))}}
	server, err := url.Parse(connString)
	must.Succeed(t, err)
	db := dbmate.New(server)
	db.FS, db.MigrationsDir, db.AutoDumpSchema, db.Log = files, []string{"."}, false, t.Output()
	return db
}

func open(t *testing.T, connString string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(connString)
	must.Succeed(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // files have many statements
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() }) // golang-migrate closes it too
	return db
}

func sqlFile(t *testing.T, direction string) string {
	t.Helper()
	sql, err := migrations.FS.ReadFile("000001_pglock." + direction + ".sql")
	must.Succeed(t, err)
	return string(sql)
}

// definitions returns the definitions of all objects that have code.
func definitions(t *testing.T, db *testenv.DB) (all string) {
	t.Helper()
	config := db.Config(t).ConnConfig
	config.RuntimeParams["search_path"] = "pg_catalog"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, conn.Close(context.Background())) }()
	must.Succeed(t, conn.QueryRow(t.Context(), `
		SELECT string_agg(line, E'\n' ORDER BY line) FROM (
			SELECT pg_get_viewdef(c.oid) FROM pg_class AS c
			WHERE c.relnamespace = 'pglock'::regnamespace AND c.relkind = 'v'
			UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace = 'pglock'::regnamespace
			UNION ALL SELECT c.conname || ' ' || pg_get_constraintdef(c.oid)
			FROM pg_constraint AS c WHERE c.connamespace = 'pglock'::regnamespace
		) AS definition (line)`).Scan(&all))
	return all
}
