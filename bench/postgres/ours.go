package main

import (
	"context"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lockerPairs locks and unlocks key(worker, i).
func lockerPairs(locker *pglock.Locker, key func(worker, i int) int64) contest.Work {
	return func(ctx context.Context, worker, i int) error {
		lock, err := locker.Lock(ctx, pglock.Int64Key(key(worker, i)))
		if err != nil {
			return err
		}
		return lock.Unlock(ctx)
	}
}
