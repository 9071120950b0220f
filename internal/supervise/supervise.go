// Package supervise runs server programs that do not outlive the process that started them, however that ends: by a
// return from main, a panic, or SIGKILL. It gives them a directory and, if this process is root, another account, since
// PostgreSQL and PgBouncer refuse to run as root.
//
// It knows no particular server: packages pgserver and redisserver say how theirs are run. A [Server] can be brought up and
// down, stopped and killed.
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
// bytes (sun_path in unix(7) and macOS's unix(4)), and most of that is for the server.
const maxTempDir = 60

// script waits for the end of its standard input, which comes when the starter closes the other end or has ended. Then
// it ends the commands, which are all in its process group. They and everything that they started hold the other end of
// descriptor 3, so the end of the file means that all have ended. The last line ends the shell too.
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

// Supervisor owns a directory and the commands that run in it. All methods may be called concurrently.
type Supervisor struct {
	dir      string
	identity identity
	shell    *exec.Cmd
	leash    *os.File // held only by this process
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

// parentDir returns the parent of the servers' directories: TMPDIR if it is set, or else a directory in memory if there
// is enough. The account used instead of root may not be able to enter root's TMPDIR.
func parentDir(account identity) string {
	if dir := os.Getenv("TMPDIR"); dir != "" && !account.other && len(dir) <= maxTempDir {
		return dir
	}
	if dir, ok := memoryDir(); ok {
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

// Dir returns the supervised directory. Its path is short enough for Unix sockets. Close removes it.
func (s *Supervisor) Dir() string { return s.dir }

// Path returns the path of a file in the supervised directory.
func (s *Supervisor) Path(name string) string { return filepath.Join(s.dir, name) }

// Command prepares a command that runs in the supervised directory and ends with the supervisor; so do its descendants
// that stay in its process group. Its environment is this process's, without variables that would redirect a PostgreSQL
// program (PG…) or translate its messages. It is killed when ctx ends, as by [exec.CommandContext]; the caller sets its
// standard streams before starting it, and must wait for it.
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

// Own gives a directory in the supervised directory, with what is in it, to the commands' account, which alone may use it.
func (s *Supervisor) Own(name string) error {
	dir := s.Path(name)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, s.identity.own(path))
	})
	return errors.Join(err, os.Chmod(dir, 0o700))
}

// Close ends every command, waits until the commands and all their descendants are gone, and removes the
// directory. A command that ignores SIGQUIT is killed after ten seconds. A second Close returns the same
// error.
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
