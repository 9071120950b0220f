package migrationtools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Three processes of tern migrate at once; one of the migrations is CREATE INDEX CONCURRENTLY, for which the two others
// wait. The first waits for a lock of the test until both do.
func TestProgramTernUnderPglockRunDoesNotDeadlockWithAnIndex(t *testing.T) {
	pglock, tern := build(t, "../../..", "./cmd/pglock"), build(t, ".", "github.com/jackc/tern/v2")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"001_invoices.sql": "CREATE TABLE invoices AS SELECT 1 AS id;\nSELECT pg_advisory_xact_lock(4711);\n",
		"002_index.sql":    "---- tern: disable-tx ----\nCREATE INDEX CONCURRENTLY invoices_id ON invoices (id);\n",
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	migrate := func(db *testenv.DB) []string {
		return []string{tern, "migrate", "--migrations=" + dir, "--conn-string=" + db.ConnString()}
	}
	t.Run("alone it does", func(t *testing.T) {
		db := testenv.Database(t)
		if outputs := threeTimes(t, db, migrate(db)); !strings.Contains(strings.Join(outputs, ""), "40P01") {
			t.Errorf("there was no deadlock: %q", outputs)
		}
	})
	t.Run("under pglock run", func(t *testing.T) {
		db := testenv.Database(t)
		args := append([]string{pglock, "run", "--wait=5m", "schema", "--"}, migrate(db)...)
		for _, output := range threeTimes(t, db, args) {
			if strings.Contains(output, "ERROR") || strings.Contains(output, "exit status") {
				t.Errorf("it failed: %s", output)
			}
		}
		var valid bool
		must.Succeed(t, db.Connect(t).QueryRow(t.Context(),
			"SELECT indisvalid FROM pg_index WHERE indexrelid = 'invoices_id'::regclass").Scan(&valid))
		if !valid {
			t.Error("the index is not valid")
		}
	})
}

// build makes a program of a module.
func build(t *testing.T, module, pkg string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program.exe") // .exe suits every system
	cmd := exec.Command("go", "build", "-o", program, pkg)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, output)
	}
	return program
}

// threeTimes runs a command in three processes at once, and returns the output and error of each. The lock that the
// migrations want is released when one process waits for it and the other two wait for that process.
func threeTimes(t *testing.T, db *testenv.DB, args []string) (outputs []string) {
	t.Helper()
	blocker := db.Connect(t)
	_, err := blocker.Exec(t.Context(), "SELECT pg_advisory_lock(4711)")
	must.Succeed(t, err)
	ended := make(chan string)
	for range 3 {
		go func() {
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "DATABASE_URL="+db.ConnString())
			output, err := cmd.CombinedOutput()
			if err != nil {
				output = append(output, err.Error()...)
			}
			ended <- string(output)
		}()
	}
	db.WaitForWaiters(t, 3)
	_, err = blocker.Exec(t.Context(), "SELECT pg_advisory_unlock(4711)")
	must.Succeed(t, err)
	for range 3 {
		outputs = append(outputs, <-ended)
	}
	return outputs
}
