// Package guard runs server programs of which nothing outlives the process that started them, however that ends: by
// returning from main, a panic, SIGKILL. It gives them a directory of their own and, when this process is root, an
// account that is not, since PostgreSQL and PgBouncer refuse to run as root.
//
// It knows nothing of any particular server: package pgserver starts PostgreSQL with it, package testenv the others.
package guard

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

// Guard owns a directory and the commands that run in it. All methods may be called from many goroutines at once.
type Guard struct {
	dir      string
	identity identity
	shell    *exec.Cmd
	leash    *os.File // held by this process alone
	alive    *os.File // held by this process and by every command
	stderr   bytes.Buffer
	waits    sync.WaitGroup // for the processes started in the background
	close    func() error
}

// New makes a directory whose name begins with prefix, and starts guarding it. Close must be called, or the guard
// waits for the end of this process.
func New(prefix string) (*Guard, error) {
	g, err := newDirectory(prefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a server: %w", err)
	}
	if err := g.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the guard of %s: %w", g.dir, err), os.RemoveAll(g.dir))
	}
	g.close = sync.OnceValue(g.end)
	return g, nil
}

func newDirectory(prefix string) (*Guard, error) {
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
	return &Guard{dir: dir, identity: account}, nil
}

// parentDir is where servers' directories go. The account that takes root's place may have no way into a TMPDIR of
// root's own.
func parentDir(account identity) string {
	if dir := os.TempDir(); !account.other && len(dir) <= maxTempDir {
		return dir
	}
	return "/tmp"
}

func (g *Guard) start() (err error) {
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

	g.leash, g.alive = leash, alive
	g.shell = exec.Command("/bin/sh", "-c", script, "guard", g.dir)
	g.shell.Dir = "/"
	g.shell.Stdin = leashEnd
	g.shell.Stderr = &g.stderr
	g.shell.ExtraFiles = []*os.File{aliveEnd}
	g.shell.WaitDelay = 5 * time.Second
	g.identity.lead(g.shell)
	if err := g.shell.Start(); err != nil {
		return errors.Join(err, leash.Close(), alive.Close())
	}
	return nil
}

// Dir is the guarded directory, which is short enough for Unix sockets. It is removed by Close.
func (g *Guard) Dir() string { return g.dir }

// Path is the path of a file in the guarded directory.
func (g *Guard) Path(name string) string { return filepath.Join(g.dir, name) }

// Command prepares a command that runs in the guarded directory and ends with the guard; its descendants do if they
// stay in its process group. Its environment is this process's without what would redirect a PostgreSQL program (the
// PG… variables) or translate its messages. It is killed when ctx ends, as by [exec.CommandContext]; its standard
// streams are for the caller to set before it is started. It must be waited for, as [Guard.Start] does.
func (g *Guard) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = g.dir
	cmd.Env = append(serverEnviron(os.Environ()), "HOME="+g.dir, "LC_ALL=C")
	cmd.ExtraFiles = []*os.File{g.alive}
	g.identity.join(cmd, g.shell.Process.Pid)
	return cmd
}

func serverEnviron(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG") ||
			strings.HasPrefix(v, "HOME=")
	})
}

// WriteFile writes a file that only the commands' account can read into the guarded directory, and returns its path.
func (g *Guard) WriteFile(name, content string) (string, error) {
	path := g.Path(name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, g.identity.own(path)
}

// Close ends every command, waits until they and all that they started have gone, and removes the directory. A
// command that ignores SIGQUIT is killed after ten seconds. Calling Close again returns what it returned before.
func (g *Guard) Close() error { return g.close() }

func (g *Guard) end() error {
	err := errors.Join(g.leash.Close(), g.alive.Close())
	g.waits.Wait()
	if waitErr := g.shell.Wait(); g.shell.ProcessState == nil {
		return errors.Join(err, fmt.Errorf("wait for the guard of %s: %w", g.dir, waitErr))
	}
	if _, statErr := os.Stat(g.dir); !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("%s could not be removed: %s", g.dir, bytes.TrimSpace(g.stderr.Bytes())))
	}
	return err
}
