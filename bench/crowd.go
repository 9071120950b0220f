package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	crowdKey  = 13
	crowdHold = time.Millisecond
)

// turn is a period in which a Locker held the lock.
type turn struct {
	locker       int
	locked, left time.Time // left is when the unlock began
}

// contend lets each Locker lock and unlock one key for d.
func contend(ctx context.Context, lockers []*pglock.Locker, d time.Duration) (all []turn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, l := range lockers {
		group.Go(func() {
			for {
				lock, lockErr := l.Lock(ctx, pglock.Int64Key(crowdKey))
				if lockErr != nil { // the time is over
					return
				}
				t := turn{locker: i, locked: time.Now()}
				time.Sleep(crowdHold)
				t.left = time.Now()
				unlockErr := lock.Unlock(context.WithoutCancel(ctx))
				mu.Lock()
				all = append(all, t)
				err = errors.Join(err, unlockErr)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, err
}

// longestFree returns the 99th percentile of the time from an unlock to the next lock by another Locker.
func longestFree(turns []turn) time.Duration {
	slices.SortFunc(turns, func(a, b turn) int { return a.locked.Compare(b.locked) })
	var gaps []time.Duration
	for i, t := range turns {
		if i > 0 && turns[i-1].locker != t.locker {
			gaps = append(gaps, t.locked.Sub(turns[i-1].left))
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)*99/100]
}
