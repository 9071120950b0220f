package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

var (
	anyFile   = regexp.MustCompile("(?s)\n`([\\w.]+)`[^\n]*:\n\n```\\w+\n(.*?)```")
	goRunLast = regexp.MustCompile("(?s)```console\n(?:\\$ [^\n]*\n)*\\$ [^\n]*go run \\.\n(.*?)```")
)

// TestProgramDocsOfSqlcPrintWhatThePageSays makes the two projects of docs/sqlc.md of the files that the page names,
// generates their packages as it says, and runs them.
func TestProgramDocsOfSqlcPrintWhatThePageSays(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "sqlc.md"))
	first, second, found := strings.Cut(page, "## Without sqlc")
	if !found {
		t.Fatal("the page has no section about projects without sqlc")
	}
	db := testenv.Database(t)
	t.Run("with sqlc", func(t *testing.T) {
		dir, output := project(t, first)
		schema, err := os.ReadFile(filepath.Join(dir, "schema.sql"))
		must.Succeed(t, err)
		_, err = db.Connect(t).Exec(t.Context(), string(schema))
		must.Succeed(t, err)
		generate := exec.Command(sqlc(t), "generate")
		generate.Env = append(os.Environ(), "PATH="+built(t, "cmd/sqlc-gen-pglock")+string(os.PathListSeparator)+os.Getenv("PATH"))
		runProject(t, db, dir, generate, output)
	})
	t.Run("without sqlc", func(t *testing.T) {
		dir, output := project(t, second)
		_, err := db.Connect(t).Exec(t.Context(),
			"INSERT INTO invoices (id, tenant, cents) VALUES (41, 'acme', 500) ON CONFLICT DO NOTHING; UPDATE invoices SET paid = false")
		must.Succeed(t, err)
		command := exec.Command(filepath.Join(built(t, "cmd/pglockdev"), "pglockdev"), "generate", "--out", "locks", "queries.sql")
		runProject(t, db, dir, command, output)
	})
}

// TestProgramSqlcReadsTheFormOfEnumsThatThePageNames generates a query with the casts that the page names for a parameter of an enum.
func TestProgramSqlcReadsTheFormOfEnumsThatThePageNames(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "sqlc.md"))
	form := regexp.MustCompile("An enum is cast twice[^`]*`([^`]+)`").FindStringSubmatch(page)
	if form == nil {
		t.Fatal("the page does not name it")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sqlc.yaml":   regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)[1],
		"schema.sql":  "CREATE TYPE mood AS ENUM ('good', 'bad');\nCREATE TABLE people (id bigint PRIMARY KEY, feels mood);\n",
		"queries.sql": "-- pglock: key mood:{mood text}\n\n-- name: Count :one\n-- pglock: lock mood:{mood}\nSELECT count(*) FROM people WHERE feels = " + form[1] + ";\n",
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	generate := exec.Command(sqlc(t), "generate")
	generate.Dir = dir
	generate.Env = append(os.Environ(), "PATH="+built(t, "cmd/sqlc-gen-pglock")+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", generate.Args, err, out)
	}
	if code := read(t, filepath.Join(dir, "locks", "locks.go")); !strings.Contains(code, "func Mood(mood string) pglock.Key") {
		t.Errorf("the package has no function Mood:\n%s", code)
	}
}

// TestProgramSqlcReadsTheSchemaOfGooseAndMakesNoModelsOfIt has migrations of goose and pglock's schema in one folder.
func TestProgramSqlcReadsTheSchemaOfGooseAndMakesNoModelsOfIt(t *testing.T) {
	schema, err := migrations.FS.ReadFile("000001_pglock.up.sql")
	must.Succeed(t, err)
	option := regexp.MustCompile("set `(omit_\\w+: true)` in sqlc.yaml").FindStringSubmatch(read(t, filepath.Join(root, "docs", "migrations.md")))
	dir := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "migrations"), 0o700))
	for name, text := range map[string]string{
		"sqlc.yaml": "version: '2'\nsql: [{engine: postgresql, schema: migrations, queries: queries.sql, gen: {go: {package: db, out: db, " +
			option[1] + "}}}]\n",
		"migrations/1_people.sql": "-- +goose Up\nCREATE TABLE people (id bigint PRIMARY KEY);\n-- +goose Down\nDROP TABLE people;\n",
		"migrations/2_pglock.sql": string(schema),
		"queries.sql":             "-- name: People :many\nSELECT * FROM people WHERE id > $1 AND id < $2;\n",
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	generate := exec.Command(sqlc(t), "generate")
	generate.Dir = dir
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", generate.Args, err, out)
	}
	if models := read(t, filepath.Join(dir, "db", "models.go")); strings.Contains(models, "Pglock") {
		t.Errorf("the models have tables of pglock:\n%s", models)
	}
}

// project writes the files that a part of the page names, and returns what the page says that the program prints.
func project(t *testing.T, part string) (dir string, output []string) {
	t.Helper()
	dir, err := os.MkdirTemp(".", "_program")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, os.RemoveAll(dir)) })
	for _, file := range anyFile.FindAllStringSubmatch(part, -1) {
		name := filepath.Join(dir, file[1])
		if _, err := os.Stat(name); err == nil {
			continue // a later form of the same file
		}
		text := strings.ReplaceAll(file[2], `"example.com/shop/`, `"github.com/pglock-toolkit/pglock/internal/integration/docs/`+filepath.Base(dir)+"/")
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o644))
	}
	console := goRunLast.FindStringSubmatch(part)
	if console == nil {
		t.Fatal("the page does not say what the program prints")
	}
	return dir, splitLines(console[1])
}

func runProject(t *testing.T, db *testenv.DB, dir string, generate *exec.Cmd, output []string) {
	t.Helper()
	generate.Dir = dir
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", generate.Args, err, out)
	}
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("build it: %v\n%s", err, out)
	}
	program{before: output, database: db}.run(t, binary, syscall.SIGTERM)
}

// built returns a directory with a command of the repository.
func built(t *testing.T, command string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./"+command)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	return dir
}

// sqlc returns the path of the program that make generate runs.
func sqlc(t *testing.T) string {
	t.Helper()
	find := exec.Command("go", "tool", "-modfile=internal/tools/go.mod", "-n", "sqlc")
	find.Dir = root
	find.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	path, err := find.Output()
	must.Succeed(t, err)
	return strings.TrimSpace(string(path))
}
