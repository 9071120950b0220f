package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	crowdKey  = 13
	crowdHold = time.Millisecond
)

// contend lets each Locker lock and unlock one key for d.
func contend(ctx context.Context, lockers []*pglock.Locker, d time.Duration) (all []contest.Turn, err error) {
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
				t := contest.Turn{Locker: i, Locked: time.Now()}
				time.Sleep(crowdHold)
				t.Left = time.Now()
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
