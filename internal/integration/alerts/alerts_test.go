// Package alerts tests the rules for Prometheus that docs/pglock-alerts.yml has.
package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestEachAlertFiresWhenItShouldAndOnlyThen(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{"../../../docs/pglock-alerts.yml": "alerts.yml", "testdata/alerts_test.yml": "test.yml"} {
		text, err := os.ReadFile(from)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, output)
		}
	}
}
