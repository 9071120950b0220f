package cli_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
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
		wantCode(t, command(t, []string{target}, test.args...).run(), test.code)
		clean(fmt.Sprint(test.args))
	}
	// A command that must change a setting says so instead.
	execute(t, db, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_deferrable = on", db.Name()))
	r := command(t, []string{"DATABASE_URL=" + testenv.PgBouncer(t, db, testenv.TransactionPooling)}, "monitor", "--once").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "proxy", "default_transaction_deferrable is on")
}

// The server knows only the pooler's address. With its console, each session has the address of its client.
func TestPoolerClientsAreNamed(t *testing.T) {
	t.Parallel()
	for _, mode := range []testenv.Pooling{testenv.TransactionPooling, testenv.SessionPooling} {
		db := testenv.Database(t)
		through := testenv.PgBouncer(t, db, mode)
		console, err := url.Parse(through)
		must.Succeed(t, err)
		console.Path = "/pgbouncer"
		config, err := pgx.ParseConfig(through)
		must.Succeed(t, err)
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		client, err := pgx.ConnectConfig(t.Context(), config)
		must.Succeed(t, err)
		_, err = client.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(42)")
		must.Succeed(t, err)
		db.Queue(t, db.Connect(t), "SELECT pg_advisory_lock(42)")

		holder := func(args ...string) monitor.Holder {
			r := on(t, db, append([]string{"monitor", "--once", "-o", "ndjson"}, args...)...).run()
			wantCode(t, r, 0)
			return parse(t, r.stdout).Locks[0].Holders[0]
		}
		its := client.PgConn().Conn().LocalAddr().String()
		if unnamed := holder().Client; unnamed == its {
			t.Errorf("the server knows %s", unnamed)
		}
		if named := holder("--pgbouncer", console.String()).Client; named != its+" (through PgBouncer)" {
			t.Errorf("the client is %q, want %s", named, its)
		}
		watching := on(t, db, "monitor", "--events", "-o", "ndjson", "--interval", "100ms", "--database", db.Name(),
			"--pgbouncer", console.String()).start()
		watching.waitForOutput(`"wait-began"`)
		watching.signal(syscall.SIGTERM)
		r := watching.end()
		wantCode(t, r, 0)
		if blocked := regexp.MustCompile(`"blocked_by":\[[^]]*\]`).FindString(r.stdout); !strings.Contains(blocked, its+" (through PgBouncer)") {
			t.Errorf("the event names %s", blocked)
		}
		must.Succeed(t, client.Close(t.Context()))
	}
	r := command(t, nil, "monitor", "--once", "--pgbouncer", "postgres://user:secret@127.0.0.1:1/pgbouncer").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "ask PgBouncer for its clients", "refused")
	if strings.Contains(r.stderr, "secret") {
		t.Errorf("it says %s", r.stderr)
	}
}
