package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// What a command starts ends before the next holder has the lock, also if pglock or its guard is killed, or pglock is frozen:
// a program that a script waits for, and one that has left the process group.
func TestRunNothingOfTheCommandOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	const loop = `sh -c 'echo background $$; while :; do sleep 0.1; done'`
	for name, script := range map[string]string{
		"the command":     "exec " + loop,
		"its child":       loop + "; true",
		"a session below": "setsid " + loop + " & wait",
	} {
		for what, hit := range map[string]func(p *process) error{
			"pglock is killed":    func(p *process) error { return syscall.Kill(p.Process.Pid, syscall.SIGKILL) },
			"pglock is frozen":    func(p *process) error { return syscall.Kill(p.Process.Pid, syscall.SIGSTOP) },
			"its guard is killed": func(p *process) error { return syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGKILL) },
			"Ctrl-Z": func(p *process) error { // a terminal sends SIGTSTP to both
				return errors.Join(syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGTSTP), syscall.Kill(p.Process.Pid, syscall.SIGSTOP))
			},
		} {
			if name != "a session below" && what != "pglock is killed" {
				continue // the guard ends all of them in the same way
			}
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				db := testenv.Database(t)
				p := on(t, db, "run", "--lease", "3s", "k", "--", "sh", "-c", script).start()
				p.waitForOutput("background")
				pid := background(t, p.stdout.String())
				must.Succeed(t, hit(p))
				next := on(t, db, "run", "k", "--", "ps", "-o", "stat=", "-p", fmt.Sprint(pid)).run()
				if state := strings.TrimSpace(next.stdout); state != "" && !strings.HasPrefix(state, "Z") {
					t.Errorf("the next holder sees it in state %s\n%s", state, next.stderr)
				}
				_ = p.Process.Kill() // it may have ended
				_ = p.Wait()
			})
		}
	}
}

// The server frees the lock when the guard has ended, not when pglock has: the guard has the sockets of the lock's sessions.
func TestRunTheGuardKeepsTheSocketsOfTheLock(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	p := on(t, db, "run", "k", "--", "sh", "-c", "echo ready; read line; exit 0").withInput().start()
	p.waitForOutput("ready")
	own, kept := connections(t, p.Process.Pid), connections(t, childOf(t, p.Process.Pid))
	const holders = `SELECT array_agg(DISTINCT a.client_port) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()`
	ports := must.One[[]int](t, db.Pool(t), holders)
	if len(ports) == 0 {
		t.Error("no session holds a lock")
	}
	for _, port := range ports {
		if !own[port] || !kept[port] {
			t.Errorf("a session with a lock has port %d; pglock has connections from %v, its guard from %v", port, own, kept)
		}
	}
	p.closeInput()
	wantCode(t, p.end(), 0)
}

// connections returns the local ports of the TCP connections that a process has open.
func connections(t testing.TB, pid int) map[int]bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp") // proc_net(5): the second field is the local address, the tenth the inode
	must.Succeed(t, err)
	ports := map[string]int{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 9 {
			_, port, _ := strings.Cut(fields[1], ":")
			number, _ := strconv.ParseInt(port, 16, 32) // the table's heading has none
			ports["socket:["+fields[9]+"]"] = int(number)
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must.Succeed(t, err)
	found := map[int]bool{}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && ports[target] > 0 { // it may have been closed meanwhile
			found[ports[target]] = true
		}
	}
	return found
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
