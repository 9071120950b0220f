//go:build unix

package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pglock-toolkit/pglock/internal/supervise"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const childEnv = "PGLOCK_GUARD_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := runUntilKilled(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// runUntilKilled is a process that gets no chance to clean up. Its command shares its standard output.
func runUntilKilled() error {
	s, err := supervise.New("pglock-supervise-test-")
	if err != nil {
		return err
	}
	cmd := s.Command(context.Background(), "/bin/sh", "-c", "echo "+s.Dir()+"; sleep 1000; true")
	cmd.Stdout = os.Stdout
	return cmd.Run()
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, child.Start())
	var dir string
	_, err = fmt.Fscanln(output, &dir)
	must.Succeed(t, err)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the directory is not there while its owner runs: %v", err)
	}

	must.Succeed(t, child.Process.Kill())

	// The end of the output is the end of everything that held it: the child, its command, and the command's own child.
	if rest, err := io.ReadAll(output); err != nil || len(rest) > 0 {
		t.Errorf("after the kill the output was %q, %v; want its end", rest, err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child was not killed")
	}
	testenv.WaitUntil(t, dir+" is gone", func() bool { _, err := os.Stat(dir); return errors.Is(err, fs.ErrNotExist) })
}

func TestCloseEndsACommandThat(t *testing.T) {
	t.Parallel()
	for does, script := range map[string]string{
		"only waits":       "echo up; sleep 1000; true",
		"is stopped":       "echo up; kill -STOP $$; sleep 1000",
		"ignores SIGQUIT":  "trap '' QUIT; echo up; sleep 1000 & wait",
		"has ended before": "echo up",
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			s := newSupervisor(t)
			cmd := s.Command(t.Context(), "/bin/sh", "-c", script)
			output, err := cmd.StdoutPipe()
			must.Succeed(t, err)
			must.Succeed(t, cmd.Start())
			var word string
			_, err = fmt.Fscanln(output, &word)
			must.Succeed(t, err)

			must.Succeed(t, s.Close())

			if _, err := io.ReadAll(output); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Error(err)
			}
			if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory is still there: %v", err)
			}
			must.Succeed(t, s.Close())
		})
	}
}

func TestACommandIsNeitherRootNorRedirected(t *testing.T) {
	t.Setenv("PGDATA", "/elsewhere")
	t.Setenv("LC_MESSAGES", "de_DE.UTF-8")
	s := newSupervisor(t)
	path, err := s.WriteFile("secret", "for the command alone")
	must.Succeed(t, err)

	output, err := s.Command(t.Context(), "/bin/sh", "-c", `id -u; pwd; cat "$0"; echo; env`, path).Output()

	must.Succeed(t, err)
	must.Succeed(t, s.Close())
	lines := strings.Split(string(output), "\n")
	if lines[0] == "0" || lines[1] != s.Dir() || lines[2] != "for the command alone" {
		t.Errorf("user, directory and file of the command are %q", lines[:3])
	}
	for _, line := range lines[3:] {
		if strings.HasPrefix(line, "PGDATA=") || strings.HasPrefix(line, "LC_MESSAGES=") {
			t.Errorf("the command inherited %s", line)
		}
	}
}

func newSupervisor(t *testing.T) *supervise.Supervisor {
	t.Helper()
	s, err := supervise.New("pglock-supervise-test-")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, s.Close()) })
	return s
}
