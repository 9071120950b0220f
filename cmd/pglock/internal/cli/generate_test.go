package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const annotated = `-- pglock: key invoice:{id bigint} owner=billing -- one invoice
-- pglock: key nightly-report

-- name: PayInvoice :exec
-- pglock: lock invoice:{id=$1} max_wait=2s
UPDATE invoices SET paid = true, note = 'a;b' -- the end; of it
WHERE id = $1;

-- name: payAll :exec
-- pglock: lock invoice:{id=$1 bigint[]}
UPDATE invoices SET paid = true WHERE id = ANY($1);

-- name: ListInvoices :many
SELECT * FROM invoices;
`

// generated writes the text to a file and generates a package from it below this module, so that it can be compiled.
func generated(t *testing.T, text string, args ...string) (dir string, r result) {
	t.Helper()
	parent, err := filepath.Abs("../../../../.tmp")
	must.Succeed(t, err)
	must.Succeed(t, os.MkdirAll(parent, 0o755))
	dir, err = os.MkdirTemp(parent, "generate-")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, os.RemoveAll(dir)) })
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "q.sql"), []byte(text), 0o600))
	return dir, command(t, nil, append([]string{"generate", "--out", filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql")}, args...)...).run()
}

func TestProgramGenerateWritesAPackageThatCompiles(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx/v5", "database/sql"} {
		dir, r := generated(t, annotated, "--sql-package", driver)
		wantCode(t, r, 0)
		program := `package main

import "fmt"
import "` + "github.com/pglock-toolkit/pglock/.tmp/" + filepath.Base(dir) + `/locks"

func main() {
	fmt.Print(locks.Invoice(42), " ", locks.Label("invoice:42"), " ", locks.NightlyReport(), "\n", locks.PayAllSQL, locks.PayInvoiceSQL)
	_, _ = locks.ListInvoicesSQL, locks.Tx
}
`
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
		cmd := exec.Command("go", "run", filepath.Join(dir, "main.go"))
		out, err := cmd.CombinedOutput()
		want := "invoice:42 invoice:{id} nightly-report\n-- name: payAll :exec\nUPDATE invoices SET paid = true WHERE id = ANY($1)\n" +
			"-- name: PayInvoice :exec\nUPDATE invoices SET paid = true, note = 'a;b' -- the end; of it\nWHERE id = $1\n"
		if err != nil || string(out) != want {
			t.Errorf("%s: %v\n%s", driver, err, out)
		}
	}
}

func TestGenerateRefusesToRemoveAKeyUntilThePackageIsDeleted(t *testing.T) {
	t.Parallel()
	dir, r := generated(t, annotated)
	wantCode(t, r, 0)
	sql, queries := filepath.Join(dir, "q.sql"), filepath.Join(dir, "locks", "queries.go")
	before, err := os.ReadFile(queries)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(sql, []byte("-- pglock: key invoice:{id bigint}\n-- pglock: key report:nightly\n"), 0o600))
	generate := []string{"generate", "--out", filepath.Join(dir, "locks"), sql}
	r = command(t, nil, generate...).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "queries.go: the package has a key nightly-report, which the SQL has no more (new are report:nightly)")
	if after, err := os.ReadFile(queries); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %v", err)
	}
	must.Succeed(t, os.Remove(queries))
	wantCode(t, command(t, nil, generate...).run(), 0)
}

func TestGenerateOverwritesNoCodeThatItHasNotWritten(t *testing.T) {
	t.Parallel()
	dir, r := generated(t, annotated)
	wantCode(t, r, 0)
	again := func(name, code string) result {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "locks", name), []byte(code), 0o600))
		return command(t, nil, "generate", "--out", filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql")).run()
	}
	wantCode(t, again("by_hand.go", "package locks\n"), 0)
	wantCode(t, again("by_hand_test.go", "package locks_test\n"), 0)
	r = again("main.go", "package main\n")
	wantCode(t, r, 1)
	wantText(t, r.stderr, "main.go belongs to package main, and the generated code to package locks")
	must.Succeed(t, os.Remove(filepath.Join(dir, "locks", "main.go")))
	r = again("locks.go", "package locks\n\n// by hand\n")
	wantCode(t, r, 1)
	wantText(t, r.stderr, "locks.go would be overwritten, and was not generated: choose another --out")
}

// A key whose line is wrong is not gone.
func TestGenerateReportsNoKeyAsGoneBesideMistakes(t *testing.T) {
	t.Parallel()
	dir, r := generated(t, annotated)
	wantCode(t, r, 0)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "q.sql"), []byte("-- pglock: key nightly-report\n-- name: A :exce\nSELECT 1;\n"), 0o600))
	r = command(t, nil, "generate", "--out", filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql")).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "unknown command :exce")
	if strings.Contains(r.stderr, "invoice") {
		t.Errorf("it speaks of other keys: %s", r.stderr)
	}
}

func TestGenerateCanDemandKeys(t *testing.T) {
	t.Parallel()
	const sql = "-- name: Pay :exec\n-- pglock: lock invoice:{id=$1 bigint}\nUPDATE invoices SET paid = true WHERE id = $1;\n"
	_, r := generated(t, sql)
	wantCode(t, r, 0)
	_, r = generated(t, sql, "--require-keys")
	wantCode(t, r, 1)
	wantText(t, r.stderr, "q.sql:2: lock invoice:{id} is not declared, which require_keys demands: write -- pglock: key invoice:{id bigint}")
}

func TestGenerateChecksThatOutputIsUpToDate(t *testing.T) {
	t.Parallel()
	dir, r := generated(t, annotated)
	wantCode(t, r, 0)
	args := []string{"generate", "--check", "--out", filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql")}
	wantCode(t, command(t, nil, args...).run(), 0)
	for _, stale := range []string{"locks.go", "queries.go", "texts.go", "locks.sql", "names.txt"} {
		path := filepath.Join(dir, "locks", stale)
		before, err := os.ReadFile(path)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(path, append(before, '\n'), 0o600))
		r := command(t, nil, args...).run()
		wantCode(t, r, 1)
		wantText(t, r.stderr, "not up to date: ", stale)
		must.Succeed(t, os.WriteFile(path, before, 0o600))
	}
	must.Succeed(t, os.Remove(filepath.Join(dir, "locks", "names.txt")))
	wantCode(t, command(t, nil, args...).run(), 1)
}

func TestGenerateReportsMistakesWithTheirLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT 1;":                                                               "q.sql:1: a statement has no name",
		"\n-- name: A :exec\nSELECT @x;":                                          "q.sql:2: query A has @x, which is sqlc's",
		"-- name: A :exec\nSELECT sqlc.arg('x');":                                 "query A has sqlc.arg",
		"-- name: A :copyfrom\nSELECT 1;":                                         "unknown command :copyfrom",
		"-- name: A\nSELECT 1;":                                                   "want -- name: PayInvoice :exec",
		"-- name: A :exec\n":                                                      "query A has no SQL",
		"-- name: A :exec\n-- pglock: lock a:{x=$1}\nSELECT $1;":                  "q.sql:2: lock a:{x}: {x}: it has no type: write {x=$1 bigint}",
		"-- name: A :exec\n-- pglock: lock a:{x=$2 text}\nSELECT $1;":             "query A has no parameter $2",
		"-- pglock: key locks\n-- pglock: key a-sql\n-- name: a :exec\nSELECT 1;": "q.sql:2: key a-sql: the package has another ASQL",
	} {
		_, r := generated(t, text)
		wantCode(t, r, 1)
		wantText(t, r.stderr, want)
	}
	r := command(t, nil, "generate", "no-such-file.sql").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "no-such-file.sql")
}
