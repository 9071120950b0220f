package term

import (
	"os"

	"golang.org/x/sys/unix"
)

// Flush drops what has been typed on the terminal f and not been read.
func Flush(f *os.File) {
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // ioctl_tty(2); a file that is no terminal has nothing to drop
}
