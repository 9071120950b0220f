package cli_test

import (
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestRunAKilledPglockTakesTheCommandWithIt(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "k", "--", "sh", "-c", "echo background $$; while :; do sleep 0.01; done").start()
	p.waitForOutput("background")
	p.signal(syscall.SIGKILL)
	p.end()
	wantGone(t, p.stdout.String())
}
