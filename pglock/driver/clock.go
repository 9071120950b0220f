package driver

import (
	"math"
	"time"
)

// Instant is a point in time on a clock that never jumps and, on Linux, keeps running while the machine sleeps
// (Go's own monotonic clock stops then). Instants mean nothing outside the process. The zero Instant is long past.
type Instant int64

// Never is later than every instant.
const Never Instant = math.MaxInt64

var start = time.Now()

// Now reads the clock. It is Go's monotonic clock plus the time that the machine was suspended, so that it follows
// the fake clock of testing/synctest. It counts from 1970, since that clock begins long before the process.
func Now() Instant {
	now := time.Now()
	awake := now.Sub(start)
	return Instant(start.UnixNano()) + Instant(awake+suspended(now.UnixNano()-int64(awake)))
}

// Add returns the instant d after i, or [Never] if that is too late to be represented.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	if i == Never || d > 0 && sum < i {
		return Never
	}
	return sum
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }
