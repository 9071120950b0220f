package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/cli"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// roleVariable turns the test binary into another program, so that the program is built once and with the same flags as
// the tests.
const (
	roleVariable = "PGLOCK_TEST_ROLE"
	roleCommand  = "pglock"
	roleSignals  = "signals"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleCommand:
		os.Exit(cli.Main(os.Args[1:]))
	case roleSignals:
		reportSignals()
	default:
		testenv.MainAlone(m)
	}
}

// process is a pglock process, before or after its start.
type process struct {
	*exec.Cmd
	t              testing.TB
	input          *os.File      // see withInput
	read           chan struct{} // closed when all output of the terminal has been read; see onTerminal
	stdout, stderr buffer
}

// command prepares pglock with an environment in which only the given variables name a database. It has no terminal.
func command(t testing.TB, variables []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	must.Succeed(t, err)
	p := &process{Cmd: exec.Command(self, args...), t: t}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name == pgserver.BinariesVariable || !strings.HasPrefix(name, "PG") && name != "DATABASE_URL" {
			p.Env = append(p.Env, variable)
		}
	}
	// The race detector would make each process sleep for a second before it ends.
	p.Env = append(p.Env, roleVariable+"="+roleCommand, "GORACE=atexit_sleep_ms=0", "HOME="+t.TempDir(), "COLUMNS=")
	p.Env = append(p.Env, variables...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.WaitDelay = time.Minute // bounds the wait for processes that have inherited the output
	return p
}

// on prepares pglock for a database.
func on(t testing.TB, db *testenv.DB, args ...string) *process {
	t.Helper()
	return command(t, []string{"DATABASE_URL=" + db.ConnString()}, args...)
}

// start starts the process, and ends it with the test.
func (p *process) start() *process {
	p.t.Helper()
	must.Succeed(p.t, p.Start())
	p.t.Cleanup(p.killUnlessWaited)
	return p
}

// killUnlessWaited kills a process that was not waited for, because the test has failed.
func (p *process) killUnlessWaited() {
	if p.ProcessState == nil {
		p.killAll()
		_ = p.Wait()
	}
}

// result is the output and exit code of a process.
type result struct {
	code           int
	stdout, stderr string
}

// killAll kills the process and all that it has started. They share a session, whatever their process groups.
func (p *process) killAll() {
	_ = p.Process.Kill() // it may have ended
	all, err := exec.Command("ps", "-eo", "pid=,sess=").Output()
	if err != nil {
		p.t.Error(err)
	}
	for line := range strings.Lines(string(all)) {
		var pid, session int
		if _, err := fmt.Sscan(line, &pid, &session); err == nil && session == p.Process.Pid {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// end waits for the end of the process, or fails the test after a while.
func (p *process) end() result {
	p.t.Helper()
	timer := time.AfterFunc(3*time.Minute, p.killAll)
	err := p.Wait()
	if !timer.Stop() {
		p.t.Fatalf("%q did not end\n%s", p.Args[1:], &p.stderr)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		p.t.Fatal(err)
	}
	if p.read != nil {
		<-p.read
	}
	return result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// run runs pglock and waits for its end.
func (p *process) run() result {
	p.t.Helper()
	return p.start().end()
}

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	must.Succeed(p.t, p.Process.Signal(signal))
}

// waitForOutput waits until the process has written text.
func (p *process) waitForOutput(text string) {
	p.t.Helper()
	defer func() {
		if p.t.Failed() {
			p.t.Logf("it has said: %s%s", p.stdout.String(), p.stderr.String())
		}
	}()
	testenv.WaitUntil(p.t, "the process has said "+text, func() bool {
		return strings.Contains(p.stdout.String()+p.stderr.String(), text)
	})
}

// buffer may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// wantCode checks how a process ended.
func wantCode(t testing.TB, r result, code int) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
}

// wantText checks that a text contains all parts.
func wantText(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not contain %q:\n%s", part, text)
		}
	}
}

// hold makes a separate session hold a lock until the test ends, as a program without pglock would.
func hold(t testing.TB, db *testenv.DB, statement string) (pid int32) {
	t.Helper()
	conn := db.Connect(t)
	_, err := conn.Exec(context.Background(), statement)
	must.Succeed(t, err)
	return int32(conn.PgConn().PID())
}

// execute runs statements in the database.
func execute(t testing.TB, db *testenv.DB, sql string, args ...any) {
	t.Helper()
	_, err := db.Pool(t).Exec(context.Background(), sql, args...)
	must.Succeed(t, err)
}

// awaitHolder waits until a session holds an advisory lock in the database, and returns its process ID.
func awaitHolder(t testing.TB, db *testenv.DB) (pid int32) {
	t.Helper()
	testenv.WaitUntil(t, "a lock is held", func() bool {
		for _, lock := range db.AdvisoryLocks(t) {
			if lock.Granted {
				pid = lock.PID
			}
		}
		return pid != 0
	})
	return pid
}
