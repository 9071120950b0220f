package pgserver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

func TestWithoutProgramsTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv(pgserver.BinariesVariable, t.TempDir())
	_, err := pgserver.Start(t.Context(), pgserver.Options{})
	if !errors.Is(err, pgserver.ErrNoBinaries) || !strings.Contains(err.Error(), pgserver.BinariesVariable) {
		t.Errorf("the error is %v", err)
	}
}
