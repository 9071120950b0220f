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

// Events are printed, and a command is told of them, as data.
func TestWatchPrintsWhatHappensAndTellsACommand(t *testing.T) {
	t.Parallel()
	for format, waits := range map[string][2]string{"ndjson": {`"wait-began"`, `"passed-on"`}, "text": {"@42: ", "@42: passed from "}} {
		t.Run(format, func(t *testing.T) { // one after the other, as the command hears of all databases
			db := testenv.Database(t)
			directory := t.TempDir()
			output, script := filepath.Join(directory, "events"), filepath.Join(directory, "told")
			must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >>\""+output+"\"\necho told: \"$PGLOCK_TEXT\"\n"), 0o700)) //nolint:gosec // it is executed
			a, b := db.Connect(t), db.Connect(t)
			_, err := a.Exec(t.Context(), "SELECT pg_advisory_lock(41), pg_advisory_lock(42)")
			must.Succeed(t, err)
			p := on(t, db, "watch", "--interval", "200ms", "-o", format, "--on-event", script, "--key", "@42").start()
			p.waitForOutput("watching ")
			db.Queue(t, b, "SET application_name = 'a; touch evil'; SELECT pg_advisory_lock(42) /*action='pay'*/")
			p.waitForOutput(waits[0])
			p.waitForOutput("told: ")
			_, err = a.Exec(context.WithoutCancel(t.Context()), "SELECT pg_advisory_unlock(42), pg_advisory_unlock(41)")
			must.Succeed(t, err)
			p.waitForOutput(waits[1])
			p.signal(os.Interrupt)
			r := p.end()
			wantCode(t, r, 0)
			wantText(t, r.stdout, "action", "pay")
			wantText(t, r.stderr, "told: ", "a; touch evil waits", "\npglock terminate ", ": passed from")
			told, err := os.ReadFile(output)
			must.Succeed(t, err)
			if format == "ndjson" && string(told) != r.stdout {
				t.Errorf("it printed %s\nand told %s", r.stdout, told)
			}
			for line := range strings.Lines(string(told)) {
				var e journal.Event
				must.Succeed(t, json.Unmarshal([]byte(line), &e))
				if e.Key != "@42" || e.Version != journal.FormatVersion || e.At.IsZero() {
					t.Errorf("it was told of %s", line)
				}
			}
		})
	}
}

func TestWatchRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"--on-event no-such-program": `"no-such-program": executable file not found`,
		"--record=":                  "--record is empty",
		"--record-size 0":            "must be more than 0",
		"--interval 0":               "must be more than 0",
	} {
		r := command(t, nil, append([]string{"watch"}, strings.Fields(line)...)...).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, says)
	}
}
