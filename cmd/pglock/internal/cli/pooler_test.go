package cli_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// Through a transaction pooler a command works or is refused, and in either case later clients find nothing of it.
func TestPoolerKeepsNothingOfACommand(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	clean := func(after string) {
		t.Helper()
		for _, trace := range testenv.PooledTraces(t, db, through) {
			t.Errorf("%s left in a pooled session: %s", after, trace)
		}
	}
	target := "DATABASE_URL=" + through + "&target_session_attrs=primary"
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"migrate", "up"}, 0}, {[]string{"monitor", "--once"}, 0}, {[]string{"doctor", "--fail-on=problem"}, 78},
		{[]string{"run", "k", "--", "true"}, 69}, {[]string{"run", "--tick", "@hourly", "k", "--", "true"}, 69},
		{[]string{"migrate", "down", "--yes"}, 0},
	} {
		r := command(t, []string{target}, test.args...).run()
		if wantCode(t, r, test.code); test.args[0] == "run" {
			wantText(t, r.stderr, "proxy")
		}
		clean(fmt.Sprint(test.args))
	}
	session := []string{"DATABASE_URL=" + testenv.PgBouncer(t, db, testenv.SessionPooling)}
	wantCode(t, command(t, session, "run", "--allow-pooler", "k", "--", "true").run(), 0)
}
