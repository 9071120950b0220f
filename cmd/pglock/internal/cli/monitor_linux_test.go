package cli_test

import (
	"strings"
	"testing"
)

// Output for people must be harmless; output for programs must be exact (TestMonitorMachineOutputIsHarmlessAndComplete).
func TestMonitorCSVOnATerminalIsHarmless(t *testing.T) {
	t.Parallel()
	db := migrated(t)
	fillDatabase(t, db)
	p := on(t, db, "monitor", "--once", "-o", "csv", "--key", "@99").onTerminal()
	wantCode(t, p.end(), 0)
	shown := p.stdout.String()
	wantText(t, shown, "taken_at,database", `the \agid's `)
	if strings.ContainsAny(shown, "\x07\x1b") {
		t.Errorf("the terminal was shown %q", shown)
	}
}
