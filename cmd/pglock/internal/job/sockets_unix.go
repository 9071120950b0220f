//go:build unix

package job

import (
	"net"
	"os"
	"syscall"
)

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
