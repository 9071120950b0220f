package cli_test

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestRunWithPermitsExitsAsWithALock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	holder := on(t, db, "run", "-p", "1", "k", "--", "sh", "-c", "echo inside; sleep 600").start()
	t.Cleanup(holder.killUnlessWaited)
	testenv.WaitUntil(t, "the permit is held", func() bool { return strings.Contains(holder.stdout.String(), "inside") })
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"taken":              {[]string{"-n", "-p", "1", "k", "--", "true"}, 75, "1 of 1 permits"},
		"taken for too long": {[]string{"-w", "0.05", "-p", "1", "k", "--", "true"}, 75, "not acquired after"},
		"one more":           {[]string{"-n", "-p", "2", "k", "--", "sh", "-c", "exit 3"}, 3, ""},
		"the lock is free":   {[]string{"-n", "k", "--", "true"}, 0, ""},
		"zero":               {[]string{"-p", "0", "k", "--", "true"}, 64, "between 1 and 4095"},
		"shared":             {[]string{"-s", "-p", "2", "k", "--", "true"}, 64, "contradicts --shared"},
	} {
		r := on(t, db, append([]string{"run"}, test.args...)...).run()
		if r.code != test.code || !strings.Contains(r.stderr, test.says) {
			t.Errorf("%s: code %d, %s", name, r.code, r.stderr)
		}
	}
}
