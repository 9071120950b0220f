package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// TestProgramDocsOfJobsAskAgainForTheSameTime runs the program of docs/schedule.md where every call fails, since the
// schema is not installed. It must not run ahead through due times, for then their runs would be missed.
func TestProgramDocsOfJobsAskAgainForTheSameTime(t *testing.T) {
	p := programs(t, filepath.Join(root, "docs", "schedule.md"))[0]
	var output lockedBuffer
	cmd := exec.Command(build(t, p))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+testenv.Database(t).ConnString())
	cmd.Stdout, cmd.Stderr = &output, &output
	must.Succeed(t, cmd.Start())
	testenv.WaitUntil(t, "the program has failed twice", func() bool { return len(output.lines()) >= 2 })
	must.Succeed(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed

	due := regexp.MustCompile(`due (\S+): schema pglock is not installed`)
	first, second := due.FindStringSubmatch(output.lines()[0]), due.FindStringSubmatch(output.lines()[1])
	if first == nil || !slices.Equal(first, second) {
		t.Errorf("the program asks for %q and then for %q", first, second)
	}
}
