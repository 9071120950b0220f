// Package job runs a command on behalf of this process, with its standard streams and its signals, until the command
// ends. It knows nothing about locks.
//
// # Process groups
//
// A command that gets a signal to end should end with everything that it has started. If it has its own process group, the
// whole group gets the signals. But a terminal lets only one process group read from it, and sends Ctrl-C only to that group.
// So:
//
//   - Without a controlling terminal (cron, systemd, build servers) the command has its own process group, and signals
//     are sent to the whole group.
//   - With one it stays in the group of this process, so that the terminal, Ctrl-C, Ctrl-Z and the shell's job control
//     work as if it had been started directly. Signals are sent to the command alone, which may pass them on.
//
// On Linux the command is killed if this process dies without having been able to end it, for example by SIGKILL.
package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
)

// Exit codes of a shell for commands that could not be started, and the offset for the number of a signal that ended
// one (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_08_02).
const (
	CannotExecute = 126
	NotFound      = 127
	signalBase    = 128
)

// StartError says why a command could not be started.
type StartError struct {
	// Code is CannotExecute or NotFound.
	Code int
	err  error
}

func (e *StartError) Error() string { return e.err.Error() }

// Unwrap returns the operating system's reason, if there is one.
func (e *StartError) Unwrap() error { return e.err }

func startError(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return &StartError{NotFound, fmt.Errorf("command %q not found in PATH", name)}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &StartError{NotFound, fmt.Errorf("command %q not found: %w", name, reason(err))}
	}
	return &StartError{CannotExecute, fmt.Errorf("cannot execute %q: %w%s", name, reason(err), advice(err))}
}

// reason removes the wrapping that repeats the name.
func reason(err error) error {
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// Job is a running command. Its methods may be called from many goroutines at once.
type Job struct {
	cmd   *exec.Cmd
	group bool // the command has its own process group
	done  chan struct{}
	err   error // the result of Wait; written before done is closed
}

// Find finds the program that Start would run, in PATH as execvp(3) does. Its error is a *[StartError].
func Find(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if err != nil {
		return "", startError(name, err)
	}
	return path, nil
}

// Start starts the program at path with the arguments argv, the first of which is its name, and the
// environment env. It must be called from the main goroutine. Its error is a *[StartError].
func Start(path string, argv, env []string) (*Job, error) {
	// If the kernel ends the command with its parent, the parent is the thread that started it
	// (PR_SET_PDEATHSIG(2const)). So the main goroutine stays on its thread, which lives as long as the process.
	runtime.LockOSThread()
	j := &Job{group: !term.Controlled(), done: make(chan struct{})}
	j.cmd = &exec.Cmd{
		Path: path, Args: argv, Env: env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: attributes(j.group),
	}
	if err := j.cmd.Start(); err != nil {
		return nil, startError(argv[0], err)
	}
	go func() {
		j.err = j.cmd.Wait()
		close(j.done)
	}()
	return j, nil
}

// Done is closed when the command has ended. Processes that it started may still run.
func (j *Job) Done() <-chan struct{} { return j.done }

// Code waits for the end of the command and returns its exit code, or 128 and the number of the signal that ended it.
// The error says that waiting for the command failed.
func (j *Job) Code() (int, error) {
	<-j.done
	ended := j.cmd.ProcessState
	switch {
	case ended == nil:
		return 0, fmt.Errorf("wait for %q: %w", j.cmd.Path, j.err)
	case ended.ExitCode() < 0:
		return signalBase + signalNumber(ended), nil
	}
	return ended.ExitCode(), nil
}

// Signal passes on a signal that this process got, unless the terminal has also sent it to the command: a second
// Ctrl-C has another meaning to many programs.
func (j *Job) Signal(signal os.Signal) {
	if !j.group && fromTerminal(signal) && term.Foreground() {
		return
	}
	j.send(signal)
}

// End ends the command and, if it has its own process group, everything that it started. It sends SIGTERM, and after
// grace SIGKILL.
func (j *Job) End(grace time.Duration) {
	j.terminate()
	kill := time.NewTimer(grace)
	defer kill.Stop()
	for !j.gone() {
		select {
		case <-kill.C:
			j.send(os.Kill)
			<-j.done
			return
		case <-time.After(pollInterval): // the end of a process group is not signalled
		}
	}
}

// pollInterval is the pause between two checks of a process group.
const pollInterval = 20 * time.Millisecond

// gone reports whether all processes have ended.
func (j *Job) gone() bool {
	select {
	case <-j.done:
		return !j.group || !groupExists(j.cmd.Process.Pid)
	default:
		return false
	}
}

// send ignores errors: they mean that the process has ended.
func (j *Job) send(signal os.Signal) {
	if j.group {
		sendToGroup(j.cmd.Process.Pid, signal)
		return
	}
	_ = j.cmd.Process.Signal(signal)
}
