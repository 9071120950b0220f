package driver

import (
	"syscall"
	"time"
	"unsafe"
)

// From linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns how long the machine has been asleep since it started: what CLOCK_BOOTTIME counts and
// CLOCK_MONOTONIC does not (clock_gettime(2)). The two are read one after the other; a reader that is preempted
// between them reads again, so that the result is never off by more than the limit below, or, on a machine so loaded
// that it never is, only ahead: the safe side for a deadline.
func suspended() time.Duration {
	const limit, tries = 100 * time.Microsecond, 5
	var slept time.Duration
	for range tries {
		before := readClock(clockMonotonic)
		slept = readClock(clockBoottime) - before
		if readClock(clockMonotonic)-before < limit {
			break
		}
	}
	return slept
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
