package cli_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// viewFixture is a scenario on a separate server, since the view shows all databases of a server.
type viewFixture struct {
	*testenv.DB
	t      *testing.T
	server *pgserver.Server
}

func newViewFixture(t *testing.T) *viewFixture {
	t.Helper()
	server := testenv.NewServer(t, map[string]string{"deadlock_timeout": "1h"})
	s := &viewFixture{testenv.On(t, server), t, server}
	wantCode(t, on(t, s.DB, "migrate", "up").run(), 0)
	execute(t, s.DB, "SELECT pglock.register('invoice:42', 'nightly-report')")
	return s
}

// namedSession is a session with an application_name.
type namedSession struct {
	*pgx.Conn
	s *viewFixture
}

func (s *viewFixture) connect(name string) namedSession {
	s.t.Helper()
	config := s.Config(s.t).ConnConfig
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(context.Background(), config)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may have ended it
	return namedSession{conn, s}
}

func (a namedSession) exec(sql string) namedSession {
	a.s.t.Helper()
	_, err := a.Exec(context.Background(), sql)
	must.Succeed(a.s.t, err)
	return a
}

// startWait starts a statement that waits for a lock until the test ends, and returns when it waits.
func (a namedSession) startWait(sql string) {
	a.s.t.Helper()
	waiting := 0
	for _, lock := range a.s.AdvisoryLocks(a.s.t) {
		if !lock.Granted {
			waiting++
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.Exec(ctx, sql) // the statement is cancelled, or the session ends
	}()
	a.s.t.Cleanup(func() { cancel(); <-done })
	a.s.WaitForWaiters(a.s.t, waiting+1)
}

// createQueue creates a queue, and readers that wait for a lock of a session in the queue.
func (s *viewFixture) createQueue() *viewFixture {
	s.t.Helper()
	s.connect("payments").exec("BEGIN").exec("SELECT pg_advisory_xact_lock(pglock.key('invoice:42'))")
	s.connect("nightly").exec("SELECT pg_advisory_lock(pglock.key('nightly-report'))")
	s.connect("worker-1").startWait("SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	s.connect("worker-2").exec("SELECT pg_advisory_lock_shared(7, -42)").
		startWait("SELECT pg_advisory_lock(pglock.key('invoice:42'))")
	s.connect("reader").exec("SELECT pg_advisory_lock_shared(7, -42)")
	s.connect("writer").startWait("SELECT pg_advisory_lock(7, -42)")
	s.connect("late").startWait("SELECT pg_advisory_lock_shared(7, -42)")
	return s
}

func (s *viewFixture) monitor(args ...string) *process {
	return on(s.t, s.DB, append([]string{"monitor", "--interval", "0.1"}, args...)...)
}

// The pages look as package tui's golden files say; here the server, the sizes and the colours are real.
func TestViewOfAQueue(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t).createQueue()
	m := s.monitor().inTerminal(120, 40)
	m.shows("[2] TREE", "Cancel ", " writer, which waits for @7/-42 (excl)", "frees 1", "2 others wait",
		"runs: SELECT pg_advisory_lock(7, -42)", "pglock cancel ", "4 waiters", "└─ ~") // it opens on the tree, since something waits
	if colour.FindString(m.colours()) == "" {
		t.Error("no colours are used although NO_COLOR is not set")
	}
	m.types("1")
	m.shows("[1] KEYS", "nightly-report")
	m.resize(31, 7)
	m.shows("[1] KEYS", "…") // drawn for that size: tmux does not report two changes that cancel each other out
	m.resize(80, 24)
	m.shows("[1] KEYS", "nightly-report", "? help")
	m.types("Enter")
	m.shows("invoice:42 @66", "classid 1557282483, objid 991569225, objsubid 1", " payments holds it (excl)", `application "worker-1"`, "blocked by ")
}

// colour matches sequences that set a colour; 39 and 49 are the terminal's own.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;0-9]*m`)

func TestViewOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t)
	s.connect("nightly").exec("SELECT pg_advisory_lock(pglock.key('nightly-report'))")
	m := s.monitor().inTerminal(80, 24)
	m.shows("nightly-report")
	must.Succeed(t, s.server.Down(t.Context(), pgserver.Immediate))
	m.shows("LOST", "Unknown since ", "trying again", "nightly-report")
	m.types("?")
	m.shows("── help", "LOST")
	m.types("Escape")
	m.waitUntilGone("── help") // a key ends what the status says
	must.Succeed(t, s.server.Up(t.Context()))
	m.shows("the server answers again", "no advisory locks")
	m.waitUntilGone("LOST")
	s.connect("nightly").exec("SELECT pg_advisory_lock(99)")
	m.shows("@99")
	m.types("q")
	m.shows("exit code 0", "1 key, 1 holder, 0 waiters")
}

func TestViewEndsASession(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t).createQueue()
	m := s.monitor().inTerminal(100, 40)
	m.shows("invoice:42")
	m.types("Home", "t") // the top row, which stays selected: at first it was the session that the headline cancels
	m.shows("application \"payments\"", "2 sessions wait", "terminate session", "Type yes to continue")
	m.types("no", "Enter")
	m.shows("cancelled: no signal was sent", "Enter goes back to the view")
	m.types("Enter")
	m.shows("[2] TREE")
	if n := len(holdersOf(t, s.DB)); n != 4 {
		t.Fatalf("%d sessions hold locks", n)
	}
	m.types("t", "yes") // what is typed before the question is asked is no part of the answer
	testenv.WaitUntil(t, "it asks once more", func() bool { return strings.Count(m.screen(), "Type yes to continue") == 2 })
	m.types("yes", "Enter")
	m.shows("has ended: 1 lock passed to the next waiter", `msg="session signalled"`, "application=payments", "keys=[invoice:42]", "has ended: ")
	m.types("Enter")
	m.shows("[2] TREE")
	m.waitUntilGone("payments") // with the next snapshot
	m.types("q")
	m.shows("exit code 0")
}

func holdersOf(t *testing.T, db *testenv.DB) map[int32]bool {
	t.Helper()
	holders := map[int32]bool{}
	for _, lock := range db.AdvisoryLocks(t) {
		if lock.Granted {
			holders[lock.PID] = true
		}
	}
	return holders
}

func TestViewCanBeReadOnly(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t)
	s.connect("nightly").exec("SELECT pg_advisory_lock(pglock.key('nightly-report'))")
	plain := s.monitor("--read-only")
	plain.Env = append(plain.Env, "NO_COLOR=1")
	m := plain.inTerminal(120, 50)
	m.shows("nightly-report")
	if found := colour.FindString(m.colours()); found != "" {
		t.Errorf("colours are used although NO_COLOR is set: %q", found)
	}
	m.types("t", "c", "?")
	m.shows("── help", "suspend")
	if screen := m.screen(); strings.Contains(screen, "terminat") || strings.Contains(screen, "cancel") {
		t.Errorf("the view has keys that end sessions:\n%s", screen)
	}
}

func TestViewPrintsTablesOnADumbTerminal(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t)
	s.connect("nightly").exec("SELECT pg_advisory_lock(99)")
	m := newTerminal(t, s.monitor().Env)
	monitor := s.monitor().Path + " monitor"
	m.run("new-session", "-d", "-x", "80", "-y", "24", "--", "sh", "-c", "TERM=dumb "+monitor+"; exec sleep 1000")
	m.shows("@99", "1 key, 1 holder, 0 waiters")
	if strings.Contains(m.screen(), "[1] KEYS") {
		t.Error("the full-screen view is used")
	}
	m.run("new-window", "sh", "-c", monitor+" </dev/null; echo left; exec sleep 1000")
	m.shows("@99", "[1] KEYS") // keys are read from the terminal all the same
	m.types("q")
	m.shows("left")
}

func TestViewGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	s := newViewFixture(t).createQueue()
	env := s.monitor().Env
	m := newTerminal(t, append(env, "PS1=ready> "))
	m.run("new-session", "-d", "-x", "80", "-y", "24", "--", "sh", "-i")
	m.shows("ready>")
	m.types(fmt.Sprintf("%s monitor", s.monitor().Path), "Enter")
	m.shows("[2] TREE")
	m.types("C-z")
	m.shows("Stopped") // the first prompt is seen before the shell has the terminal
	m.types("echo it is $((40 + 2))", "Enter")
	m.shows("it is 42")
	m.types("fg", "Enter")
	m.shows("[2] TREE")
	m.types("C-c")
	m.shows("4 holders", "ready>")
	m.types("echo and $((40 + 3))", "Enter")
	m.shows("and 43")
}
