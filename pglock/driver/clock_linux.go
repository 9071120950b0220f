package driver

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// From linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// known is how long the machine had been asleep when that was last seen to have grown.
var known atomic.Int64

func init() { known.Store(int64(measureSleep())) }

// suspended returns how long the machine has been asleep since it started: what CLOCK_BOOTTIME counts and
// CLOCK_MONOTONIC does not (clock_gettime(2)). It only ever grows, and no sleep is as short as the tolerance, so what
// the measurement is off by does not reach the clock.
func suspended() time.Duration {
	const tolerance = time.Millisecond
	before := known.Load()
	measured := int64(measureSleep())
	if measured-before < int64(tolerance) {
		return time.Duration(before)
	}
	known.CompareAndSwap(before, measured) // if another goroutine was faster, it has seen the same sleep
	return time.Duration(measured)
}

// measureSleep reads both clocks, one after the other, and again if it was interrupted between them; on a machine so
// loaded that it always is, the result is too large, which is the safe side for a deadline.
func measureSleep() time.Duration {
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
