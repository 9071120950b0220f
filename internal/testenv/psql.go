package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// Psql returns the path of PostgreSQL's client, which may be in a different package than the server.
func Psql(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("psql"); err == nil {
		return path
	}
	binaries, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(binaries.Dir, "psql")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no psql on the PATH or beside the server: install it (apt-get install postgresql-client): %v", err)
	}
	return path
}
