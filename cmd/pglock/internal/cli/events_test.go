package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestMonitorEventsPrintsWhatHappens(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"ndjson", "json", "table"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			db := testenv.Database(t)
			a, b := db.Connect(t), db.Connect(t)
			_, err := a.Exec(context.Background(), "SELECT pg_advisory_lock(41), pg_advisory_lock(42)")
			must.Succeed(t, err)
			db.Queue(t, b, "SELECT pg_advisory_lock(42) /*action='pay'*/")
			p := on(t, db, "monitor", "--events", "--interval", "50ms", "-o", format, "--key", "@42").start()
			began, passed := `"wait-began"`, `"passed-on"`
			if format == "table" {
				began, passed = "@42: ", "@42: passed from "
			}
			p.waitForOutput(began)
			_, err = a.Exec(context.Background(), "SELECT pg_advisory_unlock(42), pg_advisory_unlock(41)")
			must.Succeed(t, err)
			p.waitForOutput(passed)
			p.signal(os.Interrupt)
			r := p.end()
			wantCode(t, r, 0)
			wantText(t, r.stdout, "action", "pay")
			if strings.Contains(r.stdout, "@41") {
				t.Errorf("an event is about another key:\n%s", r.stdout)
			}
			if format != "ndjson" {
				return
			}
			for line := range strings.Lines(r.stdout) {
				var e journal.Event
				must.Succeed(t, json.Unmarshal([]byte(line), &e))
				if e.Version != journal.FormatVersion || e.At.IsZero() {
					t.Errorf("event %s", line)
				}
			}
		})
	}
}

func TestMonitorEventsRefusesConflictingFlags(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "monitor", "--events", "--once").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "--events")
}
