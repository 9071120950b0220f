package cli_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestSignalEndingASessionAsksForConfirmation(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pid := hold(t, db, "SELECT pg_advisory_lock(7)")
	for _, test := range []struct {
		answer string
		code   int
		held   int
	}{{"y\n", 1, 1}, {"\x04", 1, 1}, {ctrlC, 130, 1}, {"yes\n", 0, 0}} {
		p := on(t, db, "terminate", fmt.Sprint(pid)).onTerminal()
		p.waitForOutput("Type yes to continue")
		p.types(test.answer)
		r := p.end()
		wantCode(t, r, test.code)
		wantText(t, r.stdout, "It holds 1 lock; no session waits for it.", "@7")
		if test.code == 1 {
			wantText(t, r.stdout, fmt.Sprintf("cancelled: no signal was sent to %d", pid))
		}
		if n := held(t, db, pid); n != test.held {
			t.Errorf("after %q the session holds %d locks, want %d", test.answer, n, test.held)
		}
	}
}
