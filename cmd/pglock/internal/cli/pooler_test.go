package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/pooled"
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
		table := on(t, db, "monitor", "--once", "--pgbouncer", console.String()).run()
		wantCode(t, table, 0)
		wantText(t, table.stdout, " "+its+" (through PgBouncer) ")
		preview := on(t, db, "terminate", "--key", "@42", "--dry-run", "--pgbouncer", console.String()).run()
		wantCode(t, preview, 0)
		wantText(t, strings.Join(strings.Fields(preview.stdout), " "), "client "+its+" (through PgBouncer)")
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
	for _, args := range [][]string{{"monitor", "--once"}, {"terminate", "--dry-run", "1"}} {
		r := command(t, []string{"DATABASE_URL=postgres://127.0.0.1:1/"}, append(args, "--pgbouncer", "postgres://user:secret@127.0.0.1:1/pgbouncer")...).run()
		wantCode(t, r, 69)
		wantText(t, r.stderr, "ask PgBouncer for its clients", "refused")
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("it says %s", r.stderr)
		}
	}
}

// A pooler that is down hides only who uses its sessions. What is no console is a mistake.
func TestPoolerThatIsDownStopsNoCommand(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pid := hold(t, db, "SELECT pg_advisory_lock(42)")
	const down = "postgres://user:secret@127.0.0.1:1/pgbouncer"
	for _, args := range [][]string{{"monitor", "--once"}, {"cancel", "--dry-run", fmt.Sprint(pid)}, {"terminate", "--dry-run", fmt.Sprint(pid)}} {
		r := on(t, db, append(args, "--pgbouncer", down)...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "@42")
		wantText(t, r.stderr, "pglock: ask PgBouncer for its clients: ", "refused", "; its sessions keep the address of the pooler")
		if strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr, "secret") {
			t.Errorf("%v says %s", args, r.stderr)
		}
		r = on(t, db, append(args, "--pgbouncer", db.ConnString())...).run()
		wantCode(t, r, 69)
		wantText(t, r.stderr, "this is not the console of a PgBouncer")
	}
	r := on(t, db, "doctor", "--pgbouncer", down).run()
	wantText(t, strings.Join(strings.Fields(r.stdout), " "), "warning it is unknown whether clients wait in PgBouncer for a session: its console does not answer", "refused")
	r = on(t, db, "doctor", "--pgbouncer", db.ConnString()).run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "this is not the console of a PgBouncer")
}

// A stream asks a pooler that did not answer at first again.
func TestPoolerThatComesBackNamesItsClients(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pooler := testenv.NewPooler(t, db, testenv.SessionPooling)
	console, err := url.Parse(pooler.ConnString())
	must.Succeed(t, err)
	console.Path = "/pgbouncer"
	console.RawQuery = "connect_timeout=1"
	must.Succeed(t, pooler.Signal(syscall.SIGSTOP))
	watching := on(t, db, "monitor", "-o", "ndjson", "--interval", "100ms", "--database", db.Name(), "--pgbouncer", console.String()).start()
	watching.waitForOutput(`"locks"`)
	must.Succeed(t, pooler.Signal(syscall.SIGCONT))
	client, err := pgx.Connect(t.Context(), pooler.ConnString())
	must.Succeed(t, err)
	_, err = client.Exec(t.Context(), "SELECT pg_advisory_lock(42)", pgx.QueryExecModeSimpleProtocol)
	must.Succeed(t, err)
	watching.waitForOutput("(through PgBouncer)")
	watching.signal(syscall.SIGTERM)
	r := watching.end()
	wantCode(t, r, 0)
	wantText(t, r.stderr, "its sessions keep the address of the pooler")
	must.Succeed(t, client.Close(t.Context()))
}

// Clients that wait in a pooler for a session are in no snapshot. Doctor asks the pooler for them, and says what its sessions
// wait for; a command that must wait there itself says so.
func TestPoolerQueueIsReported(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	through := testenv.PgBouncer(t, db, testenv.SessionPooling)
	console, err := url.Parse(through)
	must.Succeed(t, err)
	console.Path = "/pgbouncer"
	config, err := pgx.ParseConfig(through)
	must.Succeed(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	client := func() *pgx.Conn {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, conn.Close(context.WithoutCancel(t.Context()))) })
		return conn
	}
	execute := func(conn *pgx.Conn, statement string) {
		_, err := conn.Exec(t.Context(), statement)
		must.Succeed(t, err)
	}
	queue := func() []pooled.Queue {
		config, err := pgx.ParseConfig(console.String())
		must.Succeed(t, err)
		p := pooled.New(&config.Config)
		defer p.Close(t.Context())
		queues, err := p.Queues(t.Context())
		must.Succeed(t, err)
		return queues
	}
	if queues := queue(); len(queues) > 0 {
		t.Errorf("there is a queue without clients: %+v", queues)
	}
	wantText(t, on(t, db, "doctor", "--pgbouncer", console.String()).run().stdout, "no client waits long in PgBouncer")
	wantText(t, command(t, []string{"DATABASE_URL=" + through}, "doctor").run().stdout,
		"it is unknown whether clients wait in the proxy for a session", "--pgbouncer URL")

	holder := db.Connect(t)
	execute(holder, "SET application_name = 'holder'; SELECT pg_advisory_lock(42)")
	waiter := client()
	db.Queue(t, waiter, "SELECT pg_advisory_lock(42)")
	var last *pgx.Conn
	for range testenv.PoolSize - 1 {
		last = client()
		execute(last, "SELECT 1")
	}
	late := make(chan error, 1)
	queued := client()
	go func() {
		_, err := queued.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
		late <- err
	}()
	testenv.WaitUntil(t, "a client waits long in the pooler", func() bool {
		queues := queue()
		return len(queues) == 1 && queues[0].Clients == 1 && queues[0].Longest > time.Second
	})
	r := on(t, db, "doctor", "--pgbouncer", console.String(), "-o", "json").run()
	wantCode(t, r, 78)
	var report doctor.Report
	must.Succeed(t, json.Unmarshal([]byte(r.stdout), &report))
	finding := report.Findings[slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == "pooler-queue" })]
	wantText(t, finding.What+finding.Why+finding.Do, "1 client waits in PgBouncer for a session of pool "+db.Name(), "session pooling, 20 sessions, 20 in use",
		"1 of the 20 sessions in use wait for locks", fmt.Sprintf("at the root is %d holder", holder.PgConn().PID()))
	if finding.Level != doctor.Warning {
		t.Errorf("it is %s", finding.Level)
	}
	r = command(t, []string{"DATABASE_URL=" + through}, "doctor", "--pgbouncer", console.String()).run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "no answer within 10s", "a pooler has no session for this client", "1 client waits in PgBouncer")
	must.Succeed(t, last.Close(t.Context()))
	must.Succeed(t, <-late)
}
