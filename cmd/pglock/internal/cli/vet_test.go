package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestProgramVetReadsTheSQLOfThePackages(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"a.sql":            "\nSELECT pg_advisory_lock(1);\n",
		"db/b.sql":         "SELECT pg_try_advisory_xact_lock(1);",
		"db/c.sql":         "SELECT 1; -- pg_advisory_lock(1)",
		"db/d.go":          "SELECT pg_advisory_lock(1);",
		"vendor/e.sql":     "SELECT pg_advisory_lock(1);",
		".tmp/f.sql":       "SELECT pg_advisory_lock(1);",
		"module/go.mod":    "module x",
		"module/sql/g.sql": "SELECT pg_advisory_lock(1);",
	} {
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for pattern, want := range map[string]string{
		"./...":            "a.sql:2 db/b.sql:1",
		"./db/...":         "db/b.sql:1",
		".":                "a.sql:2",
		"./module/...":     "module/sql/g.sql:1",
		"example.com/a/db": "",
	} {
		var out strings.Builder
		found, err := vetSQL(&out, []string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		var places []string
		for line := range strings.Lines(out.String()) {
			place, _, _ := strings.Cut(line, ": ")
			places = append(places, filepath.ToSlash(place))
		}
		if got := strings.Join(places, " "); got != want || found != len(places) {
			t.Errorf("%s: %d in %s, want %s", pattern, found, got, want)
		}
	}
}
