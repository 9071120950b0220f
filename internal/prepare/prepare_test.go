package main

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

func TestWhatIsMissingIsNotInstalledAgainstTheUsersWill(t *testing.T) {
	t.Setenv(noInstallVariable, "1")
	t.Setenv(pgserver.BinariesVariable, t.TempDir())
	t.Setenv("CC", "no-such-compiler")

	err := prepare([]string{"postgres", "race"}, false)

	if err == nil {
		t.Fatal("nothing seems to be missing")
	}
	for _, want := range []string{
		"this machine lacks PostgreSQL's server programs\n", "this machine lacks a C compiler",
		"apt-get install --no-install-recommends gcc libc6-dev postgresql\n", "PGLOCK_NO_INSTALL is set",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
	if err := prepare([]string{"postgres"}, true); err != nil {
		t.Errorf("something optional is missed: %v", err)
	}
	if err := prepare([]string{"money"}, true); err == nil {
		t.Error("an unknown need is met")
	}
}

func TestWhatIsThereIsNotMissed(t *testing.T) {
	if err := prepare([]string{"postgres", "pgbouncer"}, false); err != nil {
		t.Error(err)
	}
}
