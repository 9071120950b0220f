// Package job runs a command on behalf of this process, with its standard streams and its signals, until the command
// ends. It knows nothing about locks.
//
// # The guard
//
// Between this process and the command stands a guard: this program once more, started by Start, with [Guard] as its main
// function. It starts the command, adopts what the command leaves behind, and keeps files open that this process gives it.
// If this process dies, even by SIGKILL, the guard kills the command and all that it has started, and ends when they are
// gone. Only then are the files closed. So if one of them is the socket of a session that holds a lock, the server frees
// the lock when nothing of the command runs any more. If the guard is killed, the kernel kills the command, and this process
// kills what the command has started. If this process is frozen, and so can neither renew the lock nor notice its loss, the
// guard ends the command before the lease is over.
//
// The guard finds all descendants of the command on Linux, where orphans are given to it. On other systems it knows only
// the command's process group.
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
package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
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

// Find finds the program that Start would run, in PATH as execvp(3) does. Its error is a *[StartError].
func Find(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if err != nil {
		return "", startError(name, err)
	}
	return path, nil
}
