package loop

import (
	"context"

	"github.com/pglock-toolkit/pglock/pglock"
)

func keeps(ctx context.Context, l *pglock.Locker, keys []pglock.Key, one pglock.Key) (held []*pglock.Lock, err error) {
	for _, key := range keys {
		lock, err := l.Lock(ctx, key) // want `Lock in a loop that keeps its locks takes a round trip for each key`
		if err != nil {
			return nil, err
		}
		defer lock.Unlock(ctx)
	}
	for _, key := range keys {
		lock, err := l.Lock(ctx, key) // want `Lock in a loop that keeps its locks`
		if err != nil {
			return nil, err
		}
		held = append(held, lock)
	}
	for _, key := range keys {
		lock, err := l.Lock(ctx, key) // one at a time
		if err != nil {
			return nil, err
		}
		if err := lock.Unlock(ctx); err != nil {
			return nil, err
		}
	}
	for range 3 {
		lock, err := l.Lock(ctx, one) // another attempt
		if err == nil {
			held = append(held, lock)
			break
		}
	}
	for _, key := range keys {
		err := func() error {
			lock, err := l.Lock(ctx, key)
			if err != nil {
				return err
			}
			defer lock.Unlock(ctx)
			return nil
		}()
		if err != nil {
			return nil, err
		}
	}
	for _, key := range keys {
		lock, err := l.TryLock(ctx, key) // what is free
		if err == nil {
			held = append(held, lock)
		}
	}
	return held, nil
}
