package contest

import (
	"slices"
	"time"
)

// Turn is a period in which a Locker held the lock.
type Turn struct {
	Locker       int
	Locked, Left time.Time // Left is when the unlock began
}

// LongestFree returns the 99th percentile of the time from an unlock to the next lock by another Locker.
func LongestFree(turns []Turn) time.Duration {
	slices.SortFunc(turns, func(a, b Turn) int { return a.Locked.Compare(b.Locked) })
	var gaps []time.Duration
	for i, t := range turns {
		if i > 0 && turns[i-1].Locker != t.Locker {
			gaps = append(gaps, t.Locked.Sub(turns[i-1].Left))
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)*99/100]
}
