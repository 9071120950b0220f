package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMonitorTellsACommandOfEvents(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	directory := t.TempDir()
	output, script := filepath.Join(directory, "events"), filepath.Join(directory, "told")
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >>\""+output+"\"\necho told: \"$PGLOCK_TEXT\"\n"), 0o700)) //nolint:gosec // it is executed

	a, b := db.Connect(t), db.Connect(t)
	_, err := a.Exec(t.Context(), "SELECT pg_advisory_lock(41), pg_advisory_lock(42)")
	must.Succeed(t, err)
	p := on(t, db, "monitor", "--interval", "50ms", "--notify-every", "1s", "--on-event", script, "--key", "@42").start()
	p.waitForOutput("watching ")
	db.Queue(t, b, "SET application_name = 'a; touch evil'; SELECT pg_advisory_lock(42)")
	p.waitForOutput("told: ")
	_, err = a.Exec(context.WithoutCancel(t.Context()), "SELECT pg_advisory_unlock(42), pg_advisory_unlock(41)")
	must.Succeed(t, err)
	p.waitForOutput(": passed from")
	p.signal(os.Interrupt)
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "told: ", "a; touch evil waits", "\npglock terminate --session ")
	if r.stdout != "" {
		t.Errorf("it printed %s", r.stdout)
	}
	told, err := os.ReadFile(output)
	must.Succeed(t, err)
	for line := range strings.Lines(string(told)) {
		var e journal.Event
		must.Succeed(t, json.Unmarshal([]byte(line), &e))
		if e.Key != "@42" {
			t.Errorf("it was told of %s", line)
		}
	}
}

func TestMonitorRefusesACommandThatItCannotTell(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"--on-event no-such-program":         `"no-such-program": executable file not found`,
		"--on-event true --once":             "contradicts --once",
		"--notify-every 2s":                  "needs --on-event",
		"--on-event true --notify-every 0.5": "at least a second",
	} {
		r := command(t, nil, append([]string{"monitor"}, strings.Fields(line)...)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
	}
}
