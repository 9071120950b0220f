// Package term reports what the command needs to know about its terminal: whether there is one, how large it is, and
// whether Ctrl-C from it reaches this process.
package term

import "os"

// Is reports whether f is a terminal.
func Is(f *os.File) bool {
	_, _, ok := Size(f)
	return ok
}

// Size returns the size of the terminal f in characters; ok is false if f is not a terminal.
func Size(f *os.File) (columns, rows int, ok bool) { return size(f) }

// Controlled reports whether this process has a controlling terminal. Under cron, systemd and most build servers it
// has none.
func Controlled() bool {
	tty, err := os.Open(controlling)
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }() // nothing was written
	return true
}

// Foreground reports whether the process group of this process gets the controlling terminal's input, and the signals of
// Ctrl-C and Ctrl-\.
func Foreground() bool {
	tty, err := os.Open(controlling)
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }() // nothing was written
	return foreground(tty)
}

// controlling is the path of the process's controlling terminal (tty(4)).
const controlling = "/dev/tty"
