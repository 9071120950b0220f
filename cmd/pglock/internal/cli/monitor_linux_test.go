package cli_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// Output for people must be harmless; output for programs must be exact (TestMonitorMachineOutputIsHarmlessAndComplete).
func TestMonitorCSVOnATerminalIsHarmless(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	fillDatabase(t, db)
	p := on(t, db, "monitor", "--once", "-o", "csv", "--key", "@99").onTerminal()
	wantCode(t, p.end(), 0)
	shown := p.stdout.String()
	wantText(t, shown, "taken_at,database", `the \agid's `)
	if strings.ContainsAny(shown, "\x07\x1b") {
		t.Errorf("the terminal was shown %q", shown)
	}
}

// When a pile-up has taken all connections of a server, the view has one left for the signal that ends it.
func TestMonitorTheViewKeepsAConnectionForSignals(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil)) // where no other test has waiters
	pool := db.Pool(t)
	sessions := func() (n int) {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity "+
			"WHERE application_name = 'pglock monitor' AND datname = current_database()").Scan(&n))
		return n
	}
	p := on(t, db, "monitor", "--interval", "1h").onTerminal()
	p.waitForOutput("[1] KEYS")
	testenv.WaitUntil(t, "the view has one for snapshots and one for signals", func() bool { return sessions() >= 2 })
	p.types("q")
	wantCode(t, p.end(), 0)
}
