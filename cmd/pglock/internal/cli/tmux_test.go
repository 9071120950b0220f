package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// terminal is a tmux terminal. It interprets its output, and its screen can be read.
type terminal struct {
	t      testing.TB
	socket string
}

// inTerminal starts the process in its own terminal. After its end, the terminal shows its exit code below its last
// output.
func (p *process) inTerminal(width, height int) *terminal {
	p.t.Helper()
	m := newTerminal(p.t, p.Env)
	args := []string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "--",
		"sh", "-c", `"$0" "$@"; echo "exit code $?"; exec sleep 1000`, p.Path}
	m.run(append(args, p.Args[1:]...)...)
	return m
}

// tmuxScript runs tmux until the end of its standard input, which also comes if this process is killed.
const tmuxScript = `tmux -u -D -f /dev/null -S "$0" </dev/null & read -r _; kill $!; wait`

// newTerminal starts a tmux that ends with the test. Programs in it get the environment.
func newTerminal(t testing.TB, env []string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("no tmux, which the tests look at terminals with: install it (apt-get install tmux, dnf install tmux, "+
			"brew install tmux): %v", err)
	}
	dir, err := os.MkdirTemp("", "pglock-tmux-") // the test's directory can be too long for the path of a socket
	must.Succeed(t, err)
	m := &terminal{t, filepath.Join(dir, "s")}
	server := exec.Command("sh", "-c", tmuxScript, m.socket)
	server.Env = append(env, "LC_ALL=C.UTF-8", "TMUX=")
	input, err := server.StdinPipe()
	must.Succeed(t, err)
	must.Succeed(t, server.Start())
	t.Cleanup(func() {
		must.Succeed(t, input.Close())
		_ = server.Wait() // it was killed
		must.Succeed(t, os.RemoveAll(dir))
	})
	testenv.WaitUntil(t, "tmux answers", func() bool {
		return m.command("set", "-g", "set-clipboard", "on").Run() == nil
	})
	return m
}

func (m *terminal) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-u", "-S", m.socket}, args...)...)
}

func (m *terminal) run(args ...string) string {
	m.t.Helper()
	output, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// types presses keys, of which tmux knows some by name: Enter, Escape, Down, C-z.
func (m *terminal) types(keys ...string) {
	m.t.Helper()
	m.run(append([]string{"send-keys", "--"}, keys...)...)
}

func (m *terminal) resize(width, height int) {
	m.t.Helper()
	m.run("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// screen returns the screen without colours.
func (m *terminal) screen() string {
	m.t.Helper()
	return m.run("capture-pane", "-p")
}

// unwrapped returns the screen without colours, with wrapped lines joined.
func (m *terminal) unwrapped() string {
	m.t.Helper()
	return m.run("capture-pane", "-p", "-J")
}

// colours returns the screen with its colour sequences.
func (m *terminal) colours() string {
	m.t.Helper()
	return m.run("capture-pane", "-p", "-e")
}

// shows waits until the terminal shows all parts.
func (m *terminal) shows(parts ...string) {
	m.t.Helper()
	var screen string
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Logf("when it was waited for %q, the terminal showed\n%s", parts, screen)
		}
	})
	testenv.WaitUntil(m.t, fmt.Sprintf("the terminal shows %q", parts), func() bool {
		screen = m.unwrapped()
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				return false
			}
		}
		return true
	})
}

// waitUntilGone waits until the terminal no longer shows text.
func (m *terminal) waitUntilGone(text string) {
	m.t.Helper()
	testenv.WaitUntil(m.t, fmt.Sprintf("the terminal shows %q no more", text), func() bool {
		return !strings.Contains(m.screen(), text)
	})
}
