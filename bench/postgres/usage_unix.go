//go:build unix

package main

import (
	"syscall"
	"time"
)

// ownTime is the processor time of this process.
func ownTime() (time.Duration, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return 0, err
	}
	return time.Duration(self.Utime.Nano() + self.Stime.Nano()), nil
}
