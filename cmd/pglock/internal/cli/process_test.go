package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// withInput gives the process an input that stays open until closeInput.
func (p *process) withInput() *process {
	p.t.Helper()
	read, write, err := os.Pipe()
	must.Succeed(p.t, err)
	p.Stdin = read
	p.input = write
	p.t.Cleanup(func() { _ = read.Close(); _ = write.Close() }) // closed already, unless the test has failed
	return p
}

func (p *process) closeInput() {
	p.t.Helper()
	must.Succeed(p.t, p.input.Close())
}

// wantGone waits for the end of the process that the output names after the word background.
func wantGone(t testing.TB, output string) {
	t.Helper()
	pid := background(t, output)
	testenv.WaitUntil(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !running(pid) })
}

// background returns the process ID that a script has printed after the word background.
func background(t testing.TB, output string) (pid int) {
	t.Helper()
	_, after, _ := strings.Cut(output, "background ")
	if _, err := fmt.Sscan(after, &pid); err != nil {
		t.Fatalf("%v in %q", err, output)
	}
	return pid
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// reportSignals prints every signal that it gets, and ends after SIGTERM. A shell cannot do that: it runs a trap only once
// for two signals that arrive close together.
func reportSignals() {
	arrived := make(chan os.Signal, 100)
	signal.Notify(arrived)
	fmt.Println("ready")
	for number := range arrived {
		switch number {
		case syscall.SIGURG, syscall.SIGCHLD, syscall.SIGCONT: // the runtime of Go uses the first for itself
		case syscall.SIGTERM:
			fmt.Println("got TERM")
			os.Exit(5)
		default:
			fmt.Println("got", number)
		}
	}
}

// signalReporter returns the command line of a process that runs reportSignals.
func signalReporter(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	must.Succeed(t, err)
	return []string{"env", roleVariable + "=" + roleSignals, self}
}
