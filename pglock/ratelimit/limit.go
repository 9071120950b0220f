package ratelimit

import (
	"fmt"
	"math"
	"time"
)

// Limit is how often something may happen: Count times per Per on average, and Burst at once.
//
// Any half-open window of length W lets through less than Burst + W×Count/Per + 1. If Burst is Count, that is nearly
// twice Count in a window of Per: a full burst, and what the rate allows after it. If that is too much, use a smaller
// Burst, or [Limit.Strict]. Per/Count is rounded up to nanoseconds.
type Limit struct {
	// Count is the number of times. It must be positive.
	Count int
	// Per is the duration that Count refers to. It must be positive, and at least Count
	// nanoseconds.
	Per time.Duration
	// Burst is how many may happen at once after a pause; 0 means Count, or 1 if the limit is strict.
	Burst int

	strict bool
}

// PerSecond is n per second, and n at once.
func PerSecond(n int) Limit { return Limit{Count: n, Per: time.Second} }

// PerMinute is n per minute, and n at once.
func PerMinute(n int) Limit { return Limit{Count: n, Per: time.Minute} }

// PerHour is n per hour, and n at once.
func PerHour(n int) Limit { return Limit{Count: n, Per: time.Hour} }

// Strict returns a limit that never lets through more than Count in any half-open window of length Per, by the
// server's clock, even if processes restart. If that clock is set back, earlier events still count. If it is set
// forward, as much is available as after a pause of that length.
//
// It does not record every event but lowers the rate by what Burst allows at once, to Count + 1 - Burst per Per. So
// a Burst of 1, the default here, keeps the full rate and spaces events evenly. A Burst of Count lets Count through
// at once, then one per Per.
func (l Limit) Strict() Limit {
	l.strict = true
	return l
}

// shape is a Limit in the form that stores use.
type shape struct{ interval, tolerance int64 }

// maxSpan bounds how far a burst or a reservation can be ahead of the clock. Twice maxSpan, in nanoseconds, is still
// exact in the floating-point numbers of Redis scripts.
const maxSpan = 45 * 24 * time.Hour

func (l Limit) burst() int {
	switch {
	case l.Burst == 0 && l.strict:
		return 1
	case l.Burst == 0:
		return l.Count
	}
	return l.Burst
}

// String describes the limit for errors and logs.
func (l Limit) String() string {
	strict := ""
	if l.strict {
		strict = "strictly "
	}
	return fmt.Sprintf("%s%d per %v, burst %d", strict, l.Count, l.Per, l.burst())
}

func (l Limit) shape() (shape, error) {
	burst := l.burst()
	rate := l.Count
	if l.strict {
		rate = l.Count + 1 - burst
	}
	switch {
	case l.Count <= 0:
		return shape{}, fmt.Errorf("the limit's Count is %d, and must be positive", l.Count)
	case l.Per <= 0:
		return shape{}, fmt.Errorf("the limit's Per is %v, and must be positive", l.Per)
	case burst < 0:
		return shape{}, fmt.Errorf("the limit's Burst is %d, and must not be negative", l.Burst)
	case rate < 1:
		return shape{}, fmt.Errorf("the limit's Burst is %d, and a strict limit of %d cannot let through more", l.Burst, l.Count)
	case int64(l.Count) > int64(l.Per):
		return shape{}, fmt.Errorf("the limit of %d per %v is more than one per nanosecond", l.Count, l.Per)
	}
	interval := (int64(l.Per)-1)/int64(rate) + 1
	if int64(burst) > math.MaxInt64/interval || int64(burst)*interval > int64(maxSpan) {
		return shape{}, fmt.Errorf("the limit's Burst of %d takes longer than %v to come back", burst, maxSpan)
	}
	return shape{interval, int64(burst) * interval}, nil
}
