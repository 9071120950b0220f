package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	script := filepath.Join(t.TempDir(), "script")
	must.Succeed(t, os.WriteFile(script, []byte("exit 0\n"), 0o700))
	plain := filepath.Join(t.TempDir(), "plain")
	must.Succeed(t, os.WriteFile(plain, nil, 0o600))
	hold(t, db, "SELECT pg_advisory_lock(7)")
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"success":              {[]string{"k", "--", "true"}, 0, ""},
		"the -- left out":      {[]string{"k", "sh", "-c", "exit 4"}, 4, ""},
		"the command's own":    {[]string{"k", "--", "sh", "-c", "exit 3"}, 3, ""},
		"runs too long":        {[]string{"--max-run", "0.2", "k", "--", "sleep", "60"}, 124, "the command has run for 200ms (--max-run)"},
		"jitter of no tick":    {[]string{"--jitter", "1s", "k", "--", "true"}, 64, "--jitter needs --tick"},
		"killed":               {[]string{"k", "--", "sh", "-c", "kill -KILL $$"}, 137, ""},
		"not found":            {[]string{"k", "--", "no-such-command"}, 127, `command "no-such-command" not found in PATH` + "\n"},
		"no such file":         {[]string{"k", "--", "/no/such/file"}, 127, `"/no/such/file" not found: no such file or directory`},
		"not executable":       {[]string{"k", "--", plain}, 126, "permission denied"},
		"a directory":          {[]string{"k", "--", t.TempDir()}, 126, "is a directory"},
		"script without #!":    {[]string{"k", "--", script}, 126, "#!/bin/sh"},
		"held":                 {[]string{"-n", "@7", "--", "true"}, 75, `lock "@7" not acquired: held by pid`},
		"held for 0 s":         {[]string{"-w", "0", "@7", "--", "true"}, 75, "held by pid"},
		"held for too long":    {[]string{"-w", "0.01", "@7", "--", "true"}, 75, "not acquired after"},
		"held, a code chosen":  {[]string{"-n", "-E", "9", "@7", "--", "true"}, 9, "held by pid"},
		"held, shared wanted":  {[]string{"-n", "-s", "@7", "--", "true"}, 75, "held by pid"},
		"as flock has it":      {[]string{"-x", "-w", "9", "k", "-c", "exit 5; true"}, 5, ""},
		"-c and more":          {[]string{"k", "-c", "true", "x"}, 64, "-c takes one command line"},
		"shared and exclusive": {[]string{"-s", "-x", "k", "-c", "true"}, 64, "contradicts --exclusive"},
		"no key":               {nil, 64, "expected KEY -- COMMAND"},
		"empty key":            {[]string{"", "--", "true"}, 64, "empty"},
		"malformed key":        {[]string{"@x", "--", "true"}, 64, `"@x"`},
		"no command":           {[]string{"k"}, 64, `no command to run under the lock "k"`},
		"no command behind --": {[]string{"k", "--"}, 64, "no command"},
		"flag behind the key":  {[]string{"k", "-n", "--", "true"}, 64, "flags such as -n go before the key: pglock run FLAGS k -- COMMAND"},
		"unknown flag":         {[]string{"--no-such-flag", "k", "--", "true"}, 64, "unknown flag: --no-such-flag"},
		"negative wait":        {[]string{"-w", "-1", "k", "--", "true"}, 64, "must not be negative"},
		"no duration":          {[]string{"-w", "soon", "k", "--", "true"}, 64, `"soon"`},
		"contradiction":        {[]string{"-n", "-w", "1", "k", "--", "true"}, 64, "contradicts"},
		"impossible code":      {[]string{"-E", "256", "k", "--", "true"}, 64, "between 0 and 255"},
		"short lease":          {[]string{"--lease", "1ms", "k", "--", "true"}, 64, "lease"},
		"no server":            {[]string{"-d", "host=127.0.0.1 port=1", "k", "--", "true"}, 69, "@127.0.0.1:1/"},
		"an empty DSN":         {[]string{"-d", "", "k", "--", "true"}, 64, "--dsn is empty"},
		"digits":               {[]string{"42", "--", "true"}, 0, "did you mean @42"},
	} {
		t.Run(name, func(t *testing.T) {
			r := on(t, db, append([]string{"run"}, test.args...)...).run()
			wantCode(t, r, test.code)
			wantText(t, r.stderr, test.says)
			if test.says == "" && r.stderr != "" {
				t.Errorf("stderr is %s", r.stderr)
			}
			if n := strings.Count(r.stderr, "pglock: "); test.says != "" && n != 1 {
				t.Errorf("%d messages instead of one: %s", n, r.stderr)
			}
		})
	}
}

func TestRunTheCommandHasTheStandardStreams(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "k", "--", "sh", "-c", "tr a-z A-Z; echo done >&2")
	p.Stdin = strings.NewReader("in\n")
	if r := p.run(); r.stdout != "IN\n" || r.stderr != "done\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

func TestRunTheCommandKnowsItsLock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	const report = `echo "$PGLOCK_KEY ${PGLOCK_FENCE-none}"`
	outer := []string{"DATABASE_URL=" + db.ConnString(), "PGLOCK_KEY=outer", "PGLOCK_FENCE=99"}
	wantReport := func(key, want string) {
		t.Helper()
		if r := command(t, outer, "run", key, "--", "sh", "-c", report).run(); r.stdout != want || r.stderr != "" {
			t.Errorf("stdout is %q and stderr %q, want %q", r.stdout, r.stderr, want)
		}
	}
	wantReport("invoice:42", "invoice:42 none\n")
	wantReport("@@x", "@@x none\n")
	wantCode(t, on(t, db, "migrate", "up").run(), 0)
	wantReport("invoice:42", "invoice:42 1\n")
	wantReport("@7/-42", "@7/-42 2\n")
	if r := on(t, db, "key", "x").run(); r.code != 0 {
		t.Error("the key that is reported is none")
	}

	poor := []string{"DATABASE_URL=" + db.Role(t, "pglock_poor")}
	r := command(t, poor, "run", "k", "--", "sh", "-c", report).run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "k none")
	wantText(t, r.stderr, "without PGLOCK_FENCE", "schema pglock")
}

func TestRunSharedHoldersRunTogether(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	holder := on(t, db, "run", "-s", "k", "--", "sh", "-c", "echo ready; read line; exit 0").withInput().start()
	holder.waitForOutput("ready")
	wantCode(t, on(t, db, "run", "-n", "-s", "k", "--", "true").run(), 0)
	wantCode(t, on(t, db, "run", "-n", "k", "--", "true").run(), 75)
	holder.closeInput()
	wantCode(t, holder.end(), 0)
	wantCode(t, on(t, db, "run", "-n", "k", "--", "true").run(), 0)
}

func TestRunASignalEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(signal.String(), func(t *testing.T) {
			db := testenv.Database(t)
			hold(t, db, "SELECT pg_advisory_lock(7)")
			p := on(t, db, "run", "@7", "--", "echo", "it runs").start()
			db.WaitForWaiters(t, 1)
			p.signal(syscall.SIGUSR1) // meant for the command, which does not run yet
			p.signal(signal)
			r := p.end()
			wantCode(t, r, 128+int(signal))
			wantText(t, r.stderr, "ended by signal")
			if r.stdout != "" {
				t.Error("the command has run")
			}
			db.WaitForWaiters(t, 0)
		})
	}
}

func TestRunSignalsArePassedOnToTheCommandOnce(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, append([]string{"run", "k", "--"}, signalReporter(t)...)...).start()
	p.waitForOutput("ready")
	want := "ready\n"
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGWINCH} {
		p.signal(signal)
		want += "got " + signal.String() + "\n"
		p.waitForOutput(want)
	}
	p.signal(syscall.SIGTERM)
	r := p.end()
	wantCode(t, r, 5)
	if want += "got TERM\n"; r.stdout != want {
		t.Errorf("the command said %q, want %q", r.stdout, want)
	}
}

func TestRunAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db)
	self := p.Path
	const ignoring = `trap "" HUP; exec "$0" run k -- sh -c 'echo background $$; read line; exit 6'`
	p.Path, p.Args = "/bin/sh", []string{"sh", "-c", ignoring, self}
	p.withInput().start()
	p.waitForOutput("background")
	p.signal(syscall.SIGHUP)
	must.Succeed(t, syscall.Kill(background(t, p.stdout.String()), syscall.SIGHUP))
	p.closeInput()
	wantCode(t, p.end(), 6)
}

// Each script has a process that goes on if it is not ended, and reports SIGTERM.
func TestRunALostLockEndsTheWholeJob(t *testing.T) {
	t.Parallel()
	const loop = `while :; do sleep 0.1; done`
	for name, script := range map[string]string{
		"one that obeys":      `trap "echo got TERM; exit 0" TERM; (` + loop + `) & echo background $!; ` + loop,
		"the command":         `trap "echo got TERM" TERM; echo background $$; ` + loop,
		"what it has started": `(trap "" TERM; ` + loop + `) & trap "echo got TERM; exit 0" TERM; echo background $!; ` + loop,
	} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Database(t)
			p := on(t, db, "run", "--kill-after", "1", "k", "--", "sh", "-c", script).start()
			p.waitForOutput("background")
			execute(t, db, "SELECT pg_terminate_backend($1)", awaitHolder(t, db))
			r := p.end()
			wantCode(t, r, 70)
			wantText(t, r.stdout, "got TERM")
			wantText(t, r.stderr, `lock "k" lost`, "ending the command")
			wantGone(t, r.stdout)
		})
	}
}

func TestRunALockLostAsTheCommandEndsIsAFailure(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "k", "--", "sh", "-c", "echo background $$; read line").withInput().start()
	p.waitForOutput("background")
	// While pglock is stopped the lock is lost and the command ends, so it sees both at once.
	p.signal(syscall.SIGSTOP)
	execute(t, db, "SELECT pg_terminate_backend($1)", awaitHolder(t, db))
	p.closeInput()
	wantGone(t, p.stdout.String())
	p.signal(syscall.SIGCONT)
	r := p.end()
	wantCode(t, r, 70)
	if n := strings.Count(r.stderr, `lock "k" lost`); n != 1 {
		t.Errorf("the loss is reported %d times: %s", n, r.stderr)
	}
}

// With --server-wait the wait for a lock outlasts a restart of the server.
func TestRunWaitsForTheLockAcrossARestart(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	_, err := db.Connect(t).Exec(t.Context(), "SELECT pg_advisory_lock(1)")
	must.Succeed(t, err)
	p := on(t, db, "run", "--server-wait", "30s", "@1", "--", "echo", "ran").start()
	db.WaitForWaiters(t, 1)
	must.Succeed(t, server.Restart(t.Context(), pgserver.Fast))
	r := p.end()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "ran")
}
