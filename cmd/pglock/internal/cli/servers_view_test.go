package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The view shows a server with a queue, one that is frozen from the beginning, and one that stops and restarts. A session
// is terminated on the server of its row, and the log names that server.
func TestViewOfSeveralServers(t *testing.T) {
	t.Parallel()
	steady, frozen, restarted := testenv.NewServer(t, nil), testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	a, b, c := testenv.On(t, steady), testenv.On(t, frozen), testenv.On(t, restarted)
	must.Succeed(t, frozen.Pause())
	t.Cleanup(func() { _ = frozen.Resume() }) // it is done already, unless the test has failed
	holder := a.Connect(t)
	_, err := holder.Exec(t.Context(), "SET application_name = 'holder'; SELECT pg_advisory_lock(7)")
	must.Succeed(t, err)
	queue(t, a, "SELECT pg_advisory_lock(7)")
	m := several(t, []string{c.ConnString(), b.ConnString(), a.ConnString()}, "monitor", "--interval", "250ms").inTerminal(120, 30)
	port := func(s *pgserver.Server) string { return fmt.Sprintf(":%d", s.Port()) }
	short := func(db *testenv.DB) string { return strings.TrimPrefix(labelOf(db), "127.0.0.1") }
	m.shows("3 servers", "SERVER", port(steady), "@7", "holder")
	m.shows("LOST " + short(b) + " since the beginning, ") // after its time-out
	must.Succeed(t, restarted.Down(t.Context(), pgserver.Immediate))
	m.shows("LOST " + short(c))
	must.Succeed(t, restarted.Up(t.Context()))
	m.waitUntilGone("LOST " + short(c))
	must.Succeed(t, frozen.Resume())
	m.waitUntilGone("LOST")
	hold(t, b, "SELECT pg_advisory_lock(8)")
	m.types("1")
	m.shows(port(frozen), "@8")

	m.types("2")
	m.shows("[2] TREE", "holder")
	m.types("t")
	pid := holder.PgConn().PID()
	m.shows(fmt.Sprintf("Type yes to terminate session %d on %s", pid, labelOf(a)), "server "+labelOf(a)+", at 127.0.0.1"+port(steady))
	m.types("yes", "Enter")
	m.shows("has ended")
	testenv.WaitUntil(t, "the waiter has the lock", func() bool { return held(t, a, int32(pid)) == 0 })
	m.types("q")
	m.shows("exit code 0")
	text := strings.Join(strings.Fields(m.unwrapped()), " ")
	wantText(t, text, "1 key, 1 holder, 0 waiters",
		fmt.Sprintf("@%s host=127.0.0.1 port=%d in_recovery=false", labelOf(a), steady.Port()),
		"signal=terminate sent=true ended=true")
}
