package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// hostile sets the title of a terminal, rings, and quotes. Names of roles and databases cannot have all of it in every
// version of PostgreSQL, so the line feed is elsewhere.
const hostile = "\x1b]0;owned\x07 \"x\\' \u202e"

// connectTo connects to a database by its name as a role without a password.
func connectTo(t *testing.T, db *testenv.DB, user, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(db.ConnString())
	must.Succeed(t, err)
	config.Database = database
	if user != "" {
		config.User, config.Password = user, "p"
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, conn.Close(t.Context())) })
	return conn
}

// wantHarmless checks that a text contains no control characters.
func wantHarmless(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if r != '\n' && !unicode.IsPrint(r) || r == utf8.RuneError {
			t.Errorf("%s has %q:\n%q", what, r, text)
			return
		}
	}
}

// The names of a role, a database, a key and a program reach a terminal, a report and Prometheus as text.
func TestHostileNamesAreHarmless(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil))
	admin := db.Connect(t)
	role, database, ascii := "r "+hostile, "d "+hostile, "a "+hostile
	quoted := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	for _, sql := range []string{
		"CREATE ROLE " + quoted(role) + " LOGIN SUPERUSER PASSWORD 'p'",
		"CREATE DATABASE " + quoted(database),
		"CREATE DATABASE " + quoted(ascii) + " ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
	} {
		_, err := admin.Exec(t.Context(), sql)
		must.Succeed(t, err)
	}
	key := "k\n" + hostile
	lock := fmt.Sprintf("SELECT pg_advisory_lock(%d) /*%s*/", pglock.NewKey(key).Int64(), key)
	holder, waiter := connectTo(t, db, role, database), connectTo(t, db, role, database)
	_, err := holder.Exec(t.Context(), "SELECT set_config('application_name', $1, false)", "h"+hostile)
	must.Succeed(t, err)
	_, err = holder.Exec(t.Context(), lock)
	must.Succeed(t, err)

	file := filepath.Join(t.TempDir(), "locks.rec")
	p := on(t, db, "watch", "--record", file, "--record-queries", "--interval", "200ms").start()
	p.waitForOutput("recording ")
	got := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(t.Context(), lock)
		got <- err
	}()
	testenv.WaitUntil(t, "the session waits", func() bool {
		return must.One[bool](t, admin, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
	})
	awaitSnapshots(t, file)

	// In a database with the encoding SQL_ASCII there can be a second key that differs only in an invalid byte.
	for _, end := range []string{"\xff", "\xfe"} {
		bytes := connectTo(t, db, role, ascii)
		_, err = bytes.Exec(t.Context(), fmt.Sprintf("SELECT pg_advisory_lock(%d) /*%s*/", pglock.NewKey(key+end).Int64(), key+end))
		must.Succeed(t, err)
	}
	awaitSnapshots(t, file)

	for _, args := range [][]string{{"monitor", "--once"}, {"check", "--critical", "0"}} {
		r := on(t, db, args...).run()
		wantHarmless(t, fmt.Sprint(args), r.stdout+r.stderr)
		if len(args) == 2 {
			wantText(t, r.stdout, `\xff`, `\xfe`)
		}
	}
	r := on(t, db, "monitor", "-o", "json").run()
	wantText(t, r.stdout, "owned")
	if !utf8.ValidString(r.stdout) {
		t.Errorf("JSON is not UTF-8: %q", r.stdout)
	}
	serving := serveOn(t, db)
	metrics := serving.metrics("pglock_up 1\n")
	serving.signal(os.Interrupt)
	wantCode(t, serving.end(), 0)
	if promtool, err := exec.LookPath("promtool"); err == nil {
		checking := exec.Command(promtool, "check", "metrics")
		checking.Stdin = strings.NewReader(metrics)
		if output, err := checking.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s\n%s", err, output, metrics)
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	wantText(t, metrics, fmt.Sprintf(`{database="%s",key="%v",name="%s"} 1`,
		escape.Replace(database), pglock.Int64Key(pglock.NewKey(key).Int64()), escape.Replace(key)))

	must.Succeed(t, holder.Close(t.Context()))
	must.Succeed(t, <-got)
	awaitSnapshots(t, file)
	p.signal(os.Interrupt)
	wantCode(t, p.end(), 0)
	for _, args := range [][]string{{"report", file}, {"replay", file}, {"replay", file, "--events"},
		{"replay", file, "--events", "-o", "ndjson"}, {"report", file, "-o", "json"}} {
		r := command(t, nil, args...).run()
		wantCode(t, r, 0)
		wantText(t, r.stdout, "owned")
		if args[len(args)-1] != "json" && args[len(args)-1] != "ndjson" {
			wantHarmless(t, fmt.Sprint(args), r.stdout)
		}
	}
}
