//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package term

import (
	"os"
	"syscall"
	"unsafe"
)

func size(f *os.File) (columns, rows int, ok bool) {
	var answer struct{ rows, columns, x, y uint16 } // struct winsize of tty_ioctl(4)
	if !ioctl(f, syscall.TIOCGWINSZ, unsafe.Pointer(&answer)) {
		return 0, 0, false
	}
	return int(answer.columns), int(answer.rows), true
}

func foreground(tty *os.File) bool {
	var group int32
	return ioctl(tty, syscall.TIOCGPGRP, unsafe.Pointer(&group)) && int(group) == syscall.Getpgrp()
}

func ioctl(f *os.File, request uintptr, answer unsafe.Pointer) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(answer))
	return errno == 0
}
