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

var (
	known  atomic.Int64 // the time asleep, since the process started, when it was last seen to have grown
	offset atomic.Int64 // how far the wall clock was ahead of the monotonic one when that was last measured
)

// atStart is less than zero in a time namespace whose CLOCK_BOOTTIME is behind (time_namespaces(7)).
var atStart = measureSleep()

// suspended returns how long the machine has been asleep since the process started: what CLOCK_BOOTTIME counts and
// CLOCK_MONOTONIC does not (clock_gettime(2)). The wall clock keeps running during sleep as well, and the Go runtime
// reads it without a system call. So the other clocks are read only when the wall clock has moved against the monotonic
// one: when wallOffset, which is how far ahead it is in nanoseconds, has changed. If the wall clock is set, that costs
// one measurement and changes nothing.
func suspended(wallOffset int64) time.Duration {
	if d := wallOffset - offset.Load(); -tolerance < d && d < tolerance {
		return time.Duration(known.Load())
	}
	measured := int64(measureSleep() - atStart)
	for before := known.Load(); measured-before >= tolerance; before = known.Load() { // errors of measurement do not reach the clock
		if known.CompareAndSwap(before, measured) {
			break
		}
	}
	offset.Store(wallOffset) // last: a goroutine that finds it reads known without measuring
	return time.Duration(known.Load())
}

// tolerance, in nanoseconds, is shorter than any sleep and larger than any error of measurement.
const tolerance = int64(time.Millisecond)

// measureSleep reads both clocks, one after another, and again if it was interrupted between them; on a machine so
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
