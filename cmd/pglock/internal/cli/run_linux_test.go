package cli_test

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// What a command starts ends before the next holder has the lock, also if pglock or its guard is killed: a program that a
// script waits for, and one that has left the process group.
func TestRunNothingOfTheCommandOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	const loop = `sh -c 'echo background $$; while :; do sleep 0.01; done'`
	for name, script := range map[string]string{
		"the command":     "exec " + loop,
		"its child":       loop + "; true",
		"a session below": "setsid " + loop + " & wait",
	} {
		for victim, find := range map[string]func(p *process) int{
			"pglock":    func(p *process) int { return p.Process.Pid },
			"its guard": func(p *process) int { return childOf(t, p.Process.Pid) },
		} {
			t.Run(name+", killed "+victim, func(t *testing.T) {
				t.Parallel()
				db := testenv.Database(t)
				p := on(t, db, "run", "k", "--", "sh", "-c", script).start()
				p.waitForOutput("background")
				pid := background(t, p.stdout.String())
				must.Succeed(t, syscall.Kill(find(p), syscall.SIGKILL))
				next := on(t, db, "run", "k", "--", "ps", "-o", "stat=", "-p", fmt.Sprint(pid)).run()
				if state := strings.TrimSpace(next.stdout); state != "" && !strings.HasPrefix(state, "Z") {
					t.Errorf("the next holder sees it in state %s\n%s", state, next.stderr)
				}
				_ = p.Wait() // killed
			})
		}
	}
}

// The server frees the lock when the guard has ended, not when pglock has: a guard that is slow keeps the lock.
func TestRunTheGuardKeepsTheLockOfAKilledPglock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "--lease", "1h", "k", "--", "sh", "-c", "echo background $$; while :; do sleep 0.01; done").start()
	p.waitForOutput("background")
	guard := childOf(t, p.Process.Pid)
	must.Succeed(t, syscall.Kill(guard, syscall.SIGSTOP))
	must.Succeed(t, p.Process.Kill())
	wantCode(t, on(t, db, "run", "-n", "k", "--", "true").run(), 75)
	must.Succeed(t, syscall.Kill(guard, syscall.SIGCONT))
	wantGone(t, p.stdout.String())
	wantCode(t, on(t, db, "run", "k", "--", "true").run(), 0)
	_ = p.Wait() // killed
}

func TestRunReapsOrphansAsProcess1(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	const script = `for i in 1 2 3 4 5; do (sh -c 'exec sleep 0.1' &); done; while ps -eo comm= | grep -q sleep; do :; done`
	p := on(t, db, "run", "k", "--", "sh", "-c", script)
	p.Args = append([]string{"unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", p.Path}, p.Args[1:]...)
	path, err := exec.LookPath("unshare")
	must.Succeed(t, err)
	p.Path = path
	r := p.run()
	if strings.Contains(r.stderr, "unshare: ") {
		t.Skipf("a process namespace needs rights that this user does not have: %s", r.stderr)
	}
	wantCode(t, r, 0)
}

// childOf returns the only child of a process.
func childOf(t testing.TB, pid int) (child int) {
	t.Helper()
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", fmt.Sprint(pid)).Output()
	must.Succeed(t, err)
	if _, err := fmt.Sscan(string(out), &child); err != nil {
		t.Fatalf("the children of %d are %q", pid, out)
	}
	return child
}
