package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const annotated = `-- pglock: key invoice:{id bigint} -- one invoice
-- pglock: key nightly-report

-- name: PayInvoice :exec
-- pglock: lock invoice:{id=$1} max_wait=2s
UPDATE invoices SET paid = true, note = 'a;b' -- the end; of it
WHERE id = $1;

-- name: payAll :exec
-- pglock: lock invoice:{id=$1[]}
UPDATE invoices SET paid = true WHERE id = ANY($1);

-- name: ListInvoices :many
SELECT * FROM invoices;
`

// pglockdev runs the command.
func pglockdev(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// generatedFrom writes the text to a file and generates a package from it below this module, so that it can be compiled.
func generatedFrom(t *testing.T, text string) (dir string, code int, stderr string) {
	t.Helper()
	parent, err := filepath.Abs(".tmp")
	must.Succeed(t, err)
	must.Succeed(t, os.MkdirAll(parent, 0o755))
	dir, err = os.MkdirTemp(parent, "generate-")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, os.RemoveAll(dir)) })
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "q.sql"), []byte(text), 0o600))
	code, _, stderr = pglockdev("generate", "--out", filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql"))
	return dir, code, stderr
}

func TestProgramGenerateWritesAPackageThatCompiles(t *testing.T) {
	dir, code, stderr := generatedFrom(t, annotated)
	if code != 0 {
		t.Fatal(stderr)
	}
	program := `package main

import "fmt"
import "github.com/pglock-toolkit/pglock/cmd/pglockdev/.tmp/` + filepath.Base(dir) + `/locks"

func main() {
	fmt.Print(locks.Invoice(42), " ", locks.Label("invoice:42"), " ", locks.NightlyReport(), "\n", locks.PayAllSQL, locks.PayInvoiceSQL)
	_, _ = locks.ListInvoicesSQL, locks.Tx
}
`
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	out, err := exec.Command("go", "run", filepath.Join(dir, "main.go")).CombinedOutput()
	want := "invoice:42 invoice:{id} nightly-report\n-- name: payAll :exec\nUPDATE invoices SET paid = true WHERE id = ANY($1)\n" +
		"-- name: PayInvoice :exec\nUPDATE invoices SET paid = true, note = 'a;b' -- the end; of it\nWHERE id = $1\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGenerateOverwritesNoCodeThatItHasNotWritten(t *testing.T) {
	dir, code, stderr := generatedFrom(t, annotated)
	if code != 0 {
		t.Fatal(stderr)
	}
	out, sql := filepath.Join(dir, "locks"), filepath.Join(dir, "q.sql")
	if code, _, stderr := pglockdev("generate", "--out", out, sql); code != 0 {
		t.Errorf("again: %s", stderr)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(out, lockgen.FileName), []byte("package locks\n\n// by hand\n"), 0o600))
	code, _, stderr = pglockdev("generate", "--out", out, sql)
	if code != 1 || !strings.Contains(stderr, "locks.go would be overwritten, and was not generated: choose another --out") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestGenerateChecksThatOutputIsUpToDate(t *testing.T) {
	dir, code, stderr := generatedFrom(t, annotated)
	if code != 0 {
		t.Fatal(stderr)
	}
	path := filepath.Join(dir, "locks", lockgen.FileName)
	check := []string{"generate", "--check", "--out", filepath.Dir(path), filepath.Join(dir, "q.sql")}
	if code, _, stderr := pglockdev(check...); code != 0 {
		t.Error(stderr)
	}
	before, err := os.ReadFile(path)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(path, bytes.ReplaceAll(before, []byte("\n"), []byte("\r\n")), 0o600)) // as Git checks it out
	if code, _, stderr := pglockdev(check...); code != 0 {
		t.Error(stderr)
	}
	must.Succeed(t, os.WriteFile(path, append(before, '\n'), 0o600))
	if code, _, stderr := pglockdev(check...); code != 1 || !strings.Contains(stderr, "locks.go is not up to date") {
		t.Errorf("changed: exit code %d: %s", code, stderr)
	}
	must.Succeed(t, os.Remove(path))
	if code, _, _ := pglockdev(check...); code != 1 {
		t.Errorf("removed: exit code %d", code)
	}
}

func TestGenerateReportsMistakesWithTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1;":                               "q.sql:1: a statement has no name",
		"\n-- name: A :exec\nSELECT @x;":          "q.sql:2: query A has @x, which is sqlc's",
		"-- name: A :exec\nSELECT sqlc.arg('x');": "query A has sqlc.arg",
		"-- name: A :copyfrom\nSELECT 1;":         "unknown command :copyfrom",
		"-- name: A :exec\n":                      "query A has no SQL",
		"-- pglock: key a:{x text}\n-- name: A :exec\n-- pglock: lock a:{x=$2}\nSELECT $1;":         "q.sql:3: lock a:{x}: {x}: query A has no parameter $2; it has $1",
		"-- pglock: key locks\n-- pglock: key a-sql\n-- name: a :exec\nSELECT 1;":                   "q.sql:2: key a-sql: the package has a function or constant ASQL of query a",
		"\ufeff-- pglock: key a\r\n-- name: A :exec\r\n-- pglock: lock a\r\nSELECT 1;\r\nSELECT 2;": "q.sql:4: a statement has no name",
	} {
		_, code, stderr := generatedFrom(t, text)
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, %s, want %s", code, stderr, want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 2, "", "pglockdev generate"},
		{"unknown", 2, "", "pglockdev generate"},
		{"--help", 0, "pglockdev vet", ""},
		{"generate", 2, "", "Usage: pglockdev generate"},
		{"generate --help", 0, "write the package to DIR", ""},
		{"generate --unknown a.sql", 2, "", "-unknown"},
		{"generate no-such-file.sql", 1, "", "no-such-file.sql"},
		{"vet --help", 0, "pglockplain", ""},
	} {
		code, stdout, stderr := pglockdev(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %s%s", c.args, code, stdout, stderr)
		}
	}
}
