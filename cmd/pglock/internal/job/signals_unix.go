//go:build unix

package job

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// fromTerminal reports whether the signal is one that a terminal itself sends to the processes in its foreground
// (termios(3), tty_ioctl(4)).
func fromTerminal(signal os.Signal) bool {
	return slices.Contains([]os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH}, signal)
}

func advice(err error) string {
	if errors.Is(err, syscall.ENOEXEC) {
		return " (a script needs a first line such as #!/bin/sh)"
	}
	return ""
}

// Signals that are passed on to the command; the stopping ones end a wait.
var (
	stopping = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
	others   = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
)

// surviveBrokenPipe keeps a closed standard error from ending this process, which would free the lock of the running
// command. It catches SIGPIPE instead of ignoring it, since the command would inherit an ignored signal.
func surviveBrokenPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// surviveStop keeps Ctrl-Z from stopping this process, which has the same process group as the command, without the command
// inheriting that.
func surviveStop() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP)
}
