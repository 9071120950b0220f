package main

import (
	"strings"
	"testing"
)

// What people look at must be harmless; what a program reads must be as it is (TestMachineOutputIsHarmlessAndComplete).
func TestCSVOnATerminalIsHarmless(t *testing.T) {
	t.Parallel()
	db := migrated(t)
	crowd(t, db)
	p := on(t, db, "monitor", "--once", "-o", "csv", "--key", "@99").onTerminal()
	wantCode(t, p.end(), 0)
	shown := p.stdout.String()
	wantText(t, shown, "taken_at,database", `the \agid's `)
	if strings.ContainsAny(shown, "\x07\x1b") {
		t.Errorf("the terminal was shown %q", shown)
	}
}
