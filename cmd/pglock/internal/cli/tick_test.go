package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestTicksOnSeveralMachinesRunOnce(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	const machines = 4
	var started []*process
	for range machines {
		started = append(started, on(t, db, "run", "--tick", "@yearly", "report", "--", "sh", "-c", `echo "$PGLOCK_DUE"`).start())
	}
	said := ""
	for _, p := range started {
		r := p.end()
		wantCode(t, r, 0)
		said += r.stdout + r.stderr
	}
	if want := fmt.Sprintf("%d-01-01T00:00:00Z\n", time.Now().UTC().Year()); said != want {
		t.Errorf("the machines said %q, want %q once", said, want)
	}
	r := on(t, db, "run", "-v", "--tick", "@yearly", "report", "--", "echo", "again").run()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "has been run")
	if r.stdout != "" {
		t.Errorf("the command ran again: %s", r.stdout)
	}
	wantText(t, on(t, db, "run", "--tick", "@yearly", "other", "--", "echo", "ran").run().stdout, "ran")
}

func TestTicksCountWhenTheCommandStartsOrSucceeds(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	for _, test := range []struct {
		flags []string
		key   string
		codes []int
	}{
		{nil, "start", []int{3, 0}},
		{[]string{"--until-success"}, "success", []int{3, 3}},
	} {
		for _, code := range test.codes {
			args := append([]string{"run", "--tick", "@yearly"}, test.flags...)
			wantCode(t, on(t, db, append(args, test.key, "--", "sh", "-c", "exit 3")...).run(), code)
		}
	}
	succeeds := []string{"run", "--until-success", "--tick", "@yearly", "success", "--", "echo", "ran"}
	wantText(t, on(t, db, succeeds...).run().stdout, "ran")
	if r := on(t, db, succeeds...).run(); r.code != 0 || r.stdout != "" {
		t.Errorf("the command ran again after it had succeeded: %d, %s", r.code, r.stdout)
	}
}

func TestTicksThatAreWrongAreMisuse(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"--tick @often k -- true", 64, "want @hourly"},
		{"--tick=@every|0.1s k -- true", 64, "at least a second"},
		{"--tick @hourly -s k -- true", 64, "contradicts"},
		{"--tick @hourly @42 -- true", 64, "needs a key that is a name"},
		{"--until-success k -- true", 64, "needs --tick"},
		{"--tick @hourly --permits 2 k -- true", 64, "contradicts"},
		{"--tick=0|4|*|* k -- true", 64, "five fields"},
		{"--tick=0|0|30|2|* k -- true", 64, "never due"},
		{"--tick=@every|1m --time-zone UTC k -- true", 64, "contradicts"},
		{"--tick @daily --time-zone Local k -- true", 64, "the name of a time zone"},
		{"--tick @daily --time-zone ../UTC k -- true", 64, "the name of a time zone"},
		{"--time-zone UTC k -- true", 64, "needs --tick"},
		{"--tick @hourly k -- true", 69, "pglock migrate up"},
	} {
		args := strings.Fields("run " + test.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "|", " ")
		}
		r := on(t, db, args...).run()
		wantText(t, r.stderr, test.says)
		if r.code != test.code && test.code == 64 || r.code == 0 {
			t.Errorf("%s: exit code %d", test.args, r.code)
		}
	}
}

func TestTicksOfACronExpressionAreDueInTheirZone(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	kiritimati, err := time.LoadLocation("Pacific/Kiritimati") // 14 hours ahead of UTC
	must.Succeed(t, err)
	year := func(zone *time.Location) string {
		return time.Date(time.Now().In(zone).Year(), 1, 1, 0, 0, 0, 0, zone).Format(time.RFC3339)
	}
	due := func(flags ...string) string {
		r := on(t, db, append(append([]string{"run"}, flags...), "report", "--", "sh", "-c", `echo "$PGLOCK_DUE"`)...).run()
		wantCode(t, r, 0)
		return strings.TrimSpace(r.stdout)
	}
	zone := []string{"--time-zone", kiritimati.String()}
	if got := due(append(zone, "--tick", "0 0 1 1 *")...); got != year(kiritimati) {
		t.Errorf("it was due at %q, want %s", got, year(kiritimati))
	}
	if got := due(append(zone, "--tick", "@yearly")...); got != "" {
		t.Errorf("@yearly ran again, due at %s", got)
	}
	if got := due("--tick", "0 0 1 1 *"); got != year(time.UTC) {
		t.Errorf("in UTC it was due at %q, want %s", got, year(time.UTC))
	}
}
