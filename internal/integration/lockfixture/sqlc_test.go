package lockfixture_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// sqlcModules are the modules, below the root, that provide the versions of sqlc with which the plugin is tested.
var sqlcModules = map[string]string{
	"newest": "internal/tools/go.mod",
	"older":  "internal/tools/older.mod",
}

// sqlc returns the path of the program, which the go command builds and caches. Without cgo its parser comes as
// WebAssembly; with cgo it takes minutes to compile.
func sqlc(t *testing.T, version string) string {
	t.Helper()
	cmd := exec.Command("go", "tool", "-modfile="+filepath.Join("../../..", sqlcModules[version]), "-n", "sqlc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	path := output(t, cmd)
	if cmd = exec.Command(strings.TrimSpace(path), "version"); !strings.HasPrefix(output(t, cmd), "v1.") {
		t.Fatalf("%s is not sqlc", path)
	}
	return strings.TrimSpace(path)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, errs.String())
	}
	return string(out)
}

var plugins = sync.OnceValues(func() (dir string, err error) {
	if dir, err = filepath.Abs("../../../.tmp/lockfixture"); err != nil { // ignored by git
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "sqlc-gen-pglock"), "../../../cmd/sqlc-gen-pglock")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return dir, nil
})

// plugin is the directory with the plugin.
func plugin(t *testing.T) string {
	t.Helper()
	dir, err := plugins()
	must.Succeed(t, err)
	return dir
}

// project copies the fixture's sources to a directory of their own, with changes made to them.
func project(t *testing.T, change ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"sqlc.yaml", "schema.sql", "queries.sql", "batch.sql"} {
		text, err := os.ReadFile(name)
		must.Succeed(t, err)
		changed := strings.NewReplacer(change...).Replace(string(text))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(changed), 0o600))
	}
	return dir
}

// run runs sqlc in a directory, and returns its output.
func run(t *testing.T, sqlc, dir, command string) (string, error) {
	t.Helper()
	cmd := exec.Command(sqlc, command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+plugin(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sameFiles compares what sqlc and the plugin have written with the files here.
func sameFiles(t *testing.T, dir string) {
	t.Helper()
	n := 0
	for _, pkg := range []string{"pgxdb", "pgxlocks"} {
		must.Succeed(t, fs.WalkDir(os.DirFS(dir), pkg, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			n++
			got, err := os.ReadFile(filepath.Join(dir, path))
			must.Succeed(t, err)
			if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what sqlc writes (make generate): %v", path, err)
			}
			return nil
		}))
	}
	if n != 8 {
		t.Errorf("there are %d files", n)
	}
}

func TestProgramSqlcWritesWhatIsHere(t *testing.T) {
	t.Parallel()
	inside := []string{"-- pglock: lock invoice:{id=invoice_id} max_wait=100ms\n", "",
		"WHERE id = @invoice_id;", "WHERE id = @invoice_id\n-- pglock: lock invoice:{id=invoice_id} max_wait=100ms\n;"}
	for _, c := range []struct {
		version, form string
		change        []string
	}{
		{"newest", "a comment inside its query", inside},
		{"older", "as it is", nil},
	} {
		t.Run(c.version+"/"+c.form, func(t *testing.T) {
			dir := project(t, c.change...)
			if out, err := run(t, sqlc(t, c.version), dir, "generate"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			sameFiles(t, dir)
		})
	}
}

// TestProgramSqlcFailsWithLines makes every kind of mistake whose report depends on what sqlc passes on.
func TestProgramSqlcFailsWithLines(t *testing.T) {
	t.Parallel()
	out, err := run(t, sqlc(t, "newest"), project(t,
		"lock invoice:{id} shared", "lock invoice:{id=nr} shared",
		"lock invoice:{id} max_wait=100ms", "lock tenant:{tenant=note}:invoice:{id}",
		"WHERE tenant = @tenant;", "WHERE tenant = @tenant;\n-- pglock: lock nightly-report",
		"-- pglock: lock invoice:{id=invoice_id}", "-- pgclok: lock invoice:{id=invoice_id}",
		"-- pglock: lock invoice:{id} try\n", "  -- pglock: lock invoice:{id}\n",
		"tenant text NOT NULL", "tenant mood NOT NULL",
		"-- name: AddInvoices :copyfrom", "-- name: AddInvoices :copyfrom\n-- pglock: lock nightly-report",
		"SELECT * FROM invoices ORDER BY id", "SELECT pg_advisory_lock(1)",
	), "generate")
	for _, want := range []string{
		"queries.sql:6: query ListInvoices calls pg_advisory_lock",
		"queries.sql:19: the comment \"pglock: lock invoice:{id}\" does not begin its line",
		"queries.sql:15: \"pgclok: lock invoice:{id=invoice_id} max_wait=100ms\" is misspelled",
		"queries.sql:23: lock invoice:{id}: {id}: query GetInvoice has no parameter nr",
		"queries.sql:27: lock tenant:{tenant}:invoice:{id}: {tenant}: query NoteInvoice may get NULL",
		"queries.sql:37: lock tenant:{tenant}:invoice:{id}: {tenant}: type \"mood\" cannot be part of a key",
		"queries.sql:48: lock nightly-report belongs to no query",
		"batch.sql:14: lock nightly-report: query AddInvoices is :copyfrom",
	} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("got %v, want %q in:\n%s", err, want, out)
		}
	}
}
