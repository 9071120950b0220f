package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// remembered is how many snapshots the trends cover.
const remembered = 60

// series are the last values of something, the newest at the end.
type series struct {
	values [remembered]int64
	length int // number of values, at the end
}

func (s series) with(value int64) series {
	copy(s.values[:], s.values[1:])
	s.values[remembered-1] = value
	s.length = min(s.length+1, remembered)
	return s
}

// quiet reports whether all values are zero.
func (s series) quiet() bool { return slices.Max(s.values[:]) <= 0 }

// last returns at most n values.
func (s series) last(n int) []int64 { return s.values[remembered-clampTo(n, 0, s.length):] }

// bars are the heights of a sparkline. The lowest is for zero alone.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last n values, the highest of them as a full bar. Missing values are blank.
func (s series) sparkline(n int) string {
	values := s.last(n)
	line := []rune(strings.Repeat(" ", max(0, n-len(values))))
	if len(values) == 0 {
		return string(line)
	}
	highest := slices.Max(values)
	for _, value := range values {
		if value == unseen {
			line = append(line, ' ')
			continue
		}
		bar := 0
		if value > 0 {
			steps := int64(len(bars) - 1)
			bar = int((value*steps + highest - 1) / highest)
		}
		line = append(line, bars[bar])
	}
	return string(line)
}

// place is a lock: a key in a database.
type place struct {
	database uint32
	key      pglock.KeyID
}

func placeOf(lock *monitor.Lock) place { return place{lock.DatabaseOID, lock.ID()} }

// trends are how contention developed. They are never changed, only replaced.
type trends struct {
	waiters series // in all
	longest series // wait, in milliseconds
	locks   map[place]series
}

// unseen is the value where there was no snapshot. It is drawn as a space.
const unseen = -1

// withGap adds a moment without a snapshot to all trends.
func (t trends) withGap() trends {
	next := trends{waiters: t.waiters.with(unseen), longest: t.longest.with(unseen), locks: make(map[place]series, len(t.locks))}
	for at, before := range t.locks {
		next.locks[at] = before.with(unseen)
	}
	return next
}

// with adds a snapshot. Locks without waiters in the whole period are dropped.
func (t trends) with(s *monitor.Snapshot) trends {
	next := trends{locks: make(map[place]series, len(t.locks))}
	var waiters int64
	var longest time.Duration
	for i := range s.Locks {
		lock := &s.Locks[i]
		if len(lock.Waiters) == 0 {
			continue
		}
		at := placeOf(lock)
		next.locks[at] = t.of(at).with(int64(len(lock.Waiters)))
		waiters += int64(len(lock.Waiters))
		longest = max(longest, longestWait(s, lock))
	}
	for at, before := range t.locks {
		if _, waitedFor := next.locks[at]; waitedFor {
			continue
		}
		if now := before.with(0); !now.quiet() {
			next.locks[at] = now
		}
	}
	next.waiters, next.longest = t.waiters.with(waiters), t.longest.with(longest.Milliseconds())
	return next
}

// of returns the trend of one lock, which is zero for a lock without waiters.
func (t trends) of(at place) series {
	if s, ok := t.locks[at]; ok {
		return s
	}
	return series{length: t.waiters.length}
}

// longestWait is the longest wait for the lock; negative without waiters.
func longestWait(s *monitor.Snapshot, lock *monitor.Lock) time.Duration {
	wait := time.Duration(-1)
	for i := range lock.Waiters {
		wait = max(wait, waited(s, &lock.Waiters[i]))
	}
	return wait
}

// waited is how long a session has waited; 0 if the server does not report it.
func waited(s *monitor.Snapshot, waiter *monitor.Waiter) time.Duration {
	if waiter.WaitingSince == nil {
		return 0
	}
	return max(0, s.TakenAt.Sub(*waiter.WaitingSince))
}
