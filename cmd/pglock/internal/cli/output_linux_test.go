package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// An error of writing the output must not look like an error of the database.
func TestOutputAFullDiskIsNotReportedAsAnOutage(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	for _, args := range [][]string{{"key", "a"}, {"migrate", "print"}, {"migrate", "version"}, {"monitor", "--once"},
		{"monitor"}, {"monitor", "-o", "json"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must.Succeed(t, err)
		p := on(t, db, args...)
		p.Stdout = full
		r := p.run()
		must.Succeed(t, full.Close())
		wantCode(t, r, 1)
		wantText(t, r.stderr, "no space left on device")
	}
}

func TestOutputAClosedOutputIsNoError(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	hold(t, db, "SELECT pg_advisory_lock(7)")
	for _, format := range []string{"text", "json"} {
		reader, writer, err := os.Pipe()
		must.Succeed(t, err)
		must.Succeed(t, reader.Close())
		p := on(t, db, "monitor", "-o", format)
		p.Stdout = writer
		p.start()
		must.Succeed(t, writer.Close())
		r := p.end()
		wantCode(t, r, 141)
		if strings.Contains(r.stderr, "pipe") {
			t.Errorf("stderr is %q", r.stderr)
		}
	}
}
