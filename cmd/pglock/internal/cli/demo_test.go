package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestLongDemonstration(t *testing.T) {
	t.Parallel()
	// The demonstration must ignore settings that name the user's own database.
	elsewhere := []string{"DATABASE_URL=postgres://127.0.0.1:1/x", "PGHOST=127.0.0.1", "PGPORT=1", "PGOPTIONS=-c x=y"}
	p := command(t, elsewhere, "demo")
	r := p.run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "balances are wrong", "all balances match the transfers, and their sum is 4000",
		"account:", "nightly-report  @7440995589958059143", "runs the report, with fencing token 1",
		"does not: the lock is held by session", "deploy:production  @", "4 waiters", "makes deployment 4",
		"has no advisory locks", "What next")
	for text, want := range map[string]int{
		"runs the report": 1, "runs the job again": 4, "runs the job, due": 1, "does not: the run due": 3,
	} {
		if n := strings.Count(r.stdout, text); n != want {
			t.Errorf("the output contains %q %d times, want %d", text, n, want)
		}
	}
	if r.stderr != "" {
		t.Errorf("stderr is %s", r.stderr)
	}
	wantNothingLeft(t, p)
}

func TestLongDemonstrationCleansUpAfterASignal(t *testing.T) {
	t.Parallel()
	for moment, signal := range map[string]syscall.Signal{
		"Starting":                   syscall.SIGTERM, // the server is about to start
		"Locks inside transactions":  syscall.SIGINT,  // processes are about to start
		"others wait for it":         syscall.SIGHUP,  // processes wait
		"Schema pglock is installed": syscall.SIGINT,
	} {
		t.Run(moment, func(t *testing.T) {
			p := command(t, nil, "demo").start()
			p.waitForOutput(moment)
			p.signal(signal)
			r := p.end()
			wantCode(t, r, 128+int(signal))
			wantText(t, r.stderr, "ended by signal")
			wantNothingLeft(t, p)
		})
	}
}

// wantNothingLeft fails the test if there are still processes of p, which was the leader of its session, or processes or
// files of its server.
func wantNothingLeft(t *testing.T, p *process) {
	t.Helper()
	dir := regexp.MustCompile(`/\S*pglock-pg-\d+`).FindString(p.stdout.String())
	testenv.WaitUntil(t, "no process is left", func() bool {
		all, err := exec.Command("ps", "-eo", "sess=,stat=,args=").Output()
		must.Succeed(t, err)
		for line := range strings.Lines(string(all)) {
			fields := strings.Fields(line)
			ours := fields[0] == strconv.Itoa(p.Process.Pid) || dir != "" && strings.Contains(line, dir)
			if zombie := strings.HasPrefix(fields[1], "Z"); ours && !zombie {
				return false
			}
		}
		return true
	})
	if _, err := os.Stat(dir); dir != "" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", dir, err)
	}
}

func TestLongDemonstrationNeedsAServer(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"PGLOCK_POSTGRES_BIN=/no/such/directory"}, "demo").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "PGLOCK_POSTGRES_BIN", "/no/such/directory")

	// A worker process does the download, so that it can be ended.
	dir := t.TempDir()
	noMirror := []string{"PGLOCK_POSTGRES_MIRROR=https://127.0.0.1:1", "TMPDIR=" + dir, "XDG_CACHE_HOME=" + dir}
	r = command(t, noMirror, "demo", "worker", "download", dir).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "unable to connect to https://127.0.0.1:1")

	// The downloaded programs are executed, so the connection must be encrypted.
	noMirror[0] = "PGLOCK_POSTGRES_MIRROR=http://127.0.0.1:1"
	r = command(t, noMirror, "demo", "worker", "download", dir).run()
	wantCode(t, r, 1)
	wantText(t, r.stderr, "PGLOCK_POSTGRES_MIRROR", "https://")
}
