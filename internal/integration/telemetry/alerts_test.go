package telemetry

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestEachAlertFiresWhenItShouldAndOnlyThen(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{alerts: "alerts.yml", "testdata/alerts_test.yml": "test.yml"} {
		text, err := os.ReadFile(from)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, output)
		}
	}
}
