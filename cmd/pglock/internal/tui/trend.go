package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// trendLength is how many snapshots a trend covers.
const trendLength = 60

// series has the last values of a quantity, the newest at the end.
type series struct {
	values [trendLength]int64
	length int // number of values that are set, at the end
}

func (s series) with(value int64) series {
	copy(s.values[:], s.values[1:])
	s.values[trendLength-1] = value
	s.length = min(s.length+1, trendLength)
	return s
}

// allZero reports whether no value is above zero.
func (s series) allZero() bool { return slices.Max(s.values[:]) <= 0 }

// last returns at most n values.
func (s series) last(n int) []int64 { return s.values[trendLength-clampTo(n, 0, s.length):] }

// bars are the characters of a sparkline. The lowest means zero.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline returns the last n values as bars. The highest of them is a full bar, and missing ones are blank.
func (s series) sparkline(n int) string {
	values := s.last(n)
	line := []rune(strings.Repeat(" ", max(0, n-len(values))))
	if len(values) == 0 {
		return string(line)
	}
	highest := slices.Max(values)
	for _, value := range values {
		if value == noValue {
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

// lockID identifies a lock: a key in a database, or in a row of the connected one.
type lockID struct {
	database uint32
	key      pglock.KeyID
	inRow    bool
}

func lockIDOf(lock *monitor.Lock) lockID { return lockID{database: lock.DatabaseOID, key: lock.ID()} }

// trends says how contention developed. It is immutable.
type trends struct {
	waiters series // for all locks
	times   series // when the snapshots were taken, in milliseconds
	locks   map[lockID]series
}

// noValue is the value where there was no snapshot.
const noValue = -1

// withGap adds a missing value to all trends.
func (t trends) withGap() trends {
	next := trends{waiters: t.waiters.with(noValue), times: t.times.with(noValue), locks: make(map[lockID]series, len(t.locks))}
	for at, before := range t.locks {
		next.locks[at] = before.with(noValue)
	}
	return next
}

// with adds a snapshot. It drops locks that had no waiters in the whole period.
func (t trends) with(s *monitor.Snapshot) trends {
	next := trends{locks: make(map[lockID]series, len(t.locks))}
	waiters := int64(s.OtherWaiters())
	for k := range keysOf(s) {
		if n := int64(k.waiterCount()); n > 0 {
			next.locks[k.keyID()] = t.of(k.keyID()).with(n)
			waiters += n
		}
	}
	for at, before := range t.locks {
		if _, waitedFor := next.locks[at]; waitedFor {
			continue
		}
		if now := before.with(0); !now.allZero() {
			next.locks[at] = now
		}
	}
	next.waiters, next.times = t.waiters.with(waiters), t.times.with(s.TakenAt.UnixMilli())
	return next
}

// since returns when the first of the last n snapshots was taken.
func (t trends) since(n int) (time.Time, bool) {
	for _, ms := range t.times.last(n) {
		if ms != noValue {
			return time.UnixMilli(ms), true
		}
	}
	return time.Time{}, false
}

// of returns the trend of one lock.
func (t trends) of(at lockID) series {
	if s, ok := t.locks[at]; ok {
		return s
	}
	return series{length: t.waiters.length}
}

// longestWait returns the longest wait for the lock, or -1 if there are no waiters.
func longestWait(s *monitor.Snapshot, lock *monitor.Lock) time.Duration {
	wait := time.Duration(-1)
	for i := range lock.Waiters {
		wait = max(wait, waited(s, &lock.Waiters[i]))
	}
	return wait
}

// waited returns how long a session has waited, or 0 if the server does not report it.
func waited(s *monitor.Snapshot, waiter *monitor.Waiter) time.Duration {
	if waiter.WaitingSince == nil {
		return 0
	}
	return max(0, s.TakenAt.Sub(*waiter.WaitingSince))
}
