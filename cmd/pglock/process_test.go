package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// withInput gives the process an input that stays open until closeInput.
func (p *process) withInput() *process {
	p.t.Helper()
	read, write, err := os.Pipe()
	check(p.t, err)
	p.Stdin = read
	p.input = write
	p.t.Cleanup(func() { _ = read.Close(); _ = write.Close() }) // closed already, unless the test has failed
	return p
}

func (p *process) closeInput() {
	p.t.Helper()
	check(p.t, p.input.Close())
}

// wantGone waits for the end of the process that the output names after the word background.
func wantGone(t testing.TB, output string) {
	t.Helper()
	pid := background(t, output)
	testenv.WaitUntil(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !running(pid) })
}

// background is the process ID that a script has said after the word background.
func background(t testing.TB, output string) (pid int) {
	t.Helper()
	_, after, _ := strings.Cut(output, "background ")
	if _, err := fmt.Sscan(after, &pid); err != nil {
		t.Fatalf("%v in %q", err, output)
	}
	return pid
}

// running reports whether a process is more than an entry that nobody has collected yet.
func running(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
