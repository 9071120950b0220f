//go:build unix

package job

import (
	"errors"
	"net"
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

// pair returns the two ends of a connection between processes.
func pair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "guard"), nil
}

// Socket returns another file of a connection's socket, which keeps the connection open as long as it is open somewhere.
// There is none of a connection that has ended, or that is not the operating system's.
func Socket(conn net.Conn) (file *os.File, ok bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false
	}
	err = raw.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if copied, err := syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(copied)
			file = os.NewFile(uintptr(copied), "socket")
		}
	})
	return file, err == nil && file != nil
}
