// Package supervise runs server programs of which nothing outlives the process that started them, however that ends: by
// returning from main, a panic, SIGKILL. It gives them a directory of their own and, when this process is root, an
// account that is not, since PostgreSQL and PgBouncer refuse to run as root.
//
// It knows nothing of any particular server: package pgserver starts PostgreSQL with it, package testenv the others.
package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxTempDir is how long the directory for temporary files may be: the path of a Unix socket has room for about 100
// bytes (sun_path in unix(7) and macOS's unix(4)), most of which is then left to the server.
const maxTempDir = 60

// script waits until its standard input ends, which it does when the starter closes the other end or is gone. Then it
// ends the commands, which are all in its process group. They hold the other end of descriptor 3, as does everything
// that they started, so its end means that the last of them has gone. The last line ends the shell too.
const script = `
trap '' HUP INT QUIT TERM
read -r _
kill -QUIT 0
kill -CONT 0
( sleep 10; rm -rf -- "$1"; kill -KILL 0 ) <&- 3<&- &
read -r _ <&3
rm -rf -- "$1"
kill -KILL 0
`

// Supervisor owns a directory and the commands that run in it. All methods may be called from many goroutines at once.
type Supervisor struct {
	dir      string
	identity identity
	shell    *exec.Cmd
	leash    *os.File // held by this process alone
	alive    *os.File // held by this process and by every command
	stderr   bytes.Buffer
	waits    sync.WaitGroup // for the processes started in the background
	close    func() error
}

// New makes a directory whose name begins with prefix, and starts supervising it. Close must be called, or the supervisor
// waits for the end of this process.
func New(prefix string) (*Supervisor, error) {
	s, err := newDirectory(prefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a server: %w", err)
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the supervisor of %s: %w", s.dir, err), os.RemoveAll(s.dir))
	}
	s.close = sync.OnceValue(s.end)
	return s, nil
}

func newDirectory(prefix string) (*Supervisor, error) {
	account, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parentDir(account), prefix)
	if err != nil {
		return nil, err
	}
	if err := account.own(dir); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &Supervisor{dir: dir, identity: account}, nil
}

// parentDir is where servers' directories go. The account that takes root's place may have no way into a TMPDIR of
// root's own.
func parentDir(account identity) string {
	if dir := os.TempDir(); !account.other && len(dir) <= maxTempDir {
		return dir
	}
	return "/tmp"
}

func (s *Supervisor) start() (err error) {
	leashEnd, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leashEnd.Close()) }()
	aliveEnd, alive, err := os.Pipe()
	if err != nil {
		return errors.Join(err, leash.Close())
	}
	defer func() { err = errors.Join(err, aliveEnd.Close()) }()

	s.leash, s.alive = leash, alive
	s.shell = exec.Command("/bin/sh", "-c", script, "supervise", s.dir)
	s.shell.Dir = "/"
	s.shell.Stdin = leashEnd
	s.shell.Stderr = &s.stderr
	s.shell.ExtraFiles = []*os.File{aliveEnd}
	s.shell.WaitDelay = 5 * time.Second
	s.identity.lead(s.shell)
	if err := s.shell.Start(); err != nil {
		return errors.Join(err, leash.Close(), alive.Close())
	}
	return nil
}

// Dir is the supervised directory, which is short enough for Unix sockets. It is removed by Close.
func (s *Supervisor) Dir() string { return s.dir }

// Path is the path of a file in the supervised directory.
func (s *Supervisor) Path(name string) string { return filepath.Join(s.dir, name) }

// Command prepares a command that runs in the supervised directory and ends with the supervisor; its descendants do if they
// stay in its process group. Its environment is this process's without what would redirect a PostgreSQL program (the
// PG… variables) or translate its messages. It is killed when ctx ends, as by [exec.CommandContext]; its standard
// streams are for the caller to set before it is started. It must be waited for, as [Supervisor.Start] does.
func (s *Supervisor) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(serverEnviron(os.Environ()), "HOME="+s.dir, "LC_ALL=C")
	cmd.ExtraFiles = []*os.File{s.alive}
	s.identity.join(cmd, s.shell.Process.Pid)
	return cmd
}

func serverEnviron(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG") ||
			strings.HasPrefix(v, "HOME=")
	})
}

// WriteFile writes a file that only the commands' account can read into the supervised directory, and returns its path.
func (s *Supervisor) WriteFile(name, content string) (string, error) {
	path := s.Path(name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, s.identity.own(path)
}

// Close ends every command, waits until they and all that they started have gone, and removes the directory. A
// command that ignores SIGQUIT is killed after ten seconds. Calling Close again returns the same error.
func (s *Supervisor) Close() error { return s.close() }

func (s *Supervisor) end() error {
	err := errors.Join(s.leash.Close(), s.alive.Close())
	s.waits.Wait()
	if waitErr := s.shell.Wait(); s.shell.ProcessState == nil {
		return errors.Join(err, fmt.Errorf("wait for the supervisor of %s: %w", s.dir, waitErr))
	}
	if _, statErr := os.Stat(s.dir); !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("%s could not be removed: %s", s.dir, bytes.TrimSpace(s.stderr.Bytes())))
	}
	return err
}
