package pglock

import (
	"context"
	"errors"
)

// Do takes the lock as [Locker.Lock] does, runs fn, and unlocks, even if fn panics or calls [runtime.Goexit]. fn's
// context ends with ctx or with the lock. If the lock was lost the error matches [ErrLost] and joins fn's error: fn's
// work may have overlapped with another holder's. Otherwise the error is fn's, joined with that of an unlock that the
// server did not confirm, or that of a lock that was not acquired. fn may unlock earlier.
func (l *Locker) Do(ctx context.Context, key Key, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, key, false, fn, opts)
}

// TryDo is [Locker.Do] with [Locker.TryLock]: when another session holds the lock it returns an error that matches
// [ErrNotAcquired] at once, and fn is not run.
func (l *Locker) TryDo(ctx context.Context, key Key, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, key, true, fn, opts)
}

func (l *Locker) do(
	ctx context.Context, key Key, try bool, fn func(context.Context, *Lock) error, opts []LockOption,
) (err error) {
	if fn == nil {
		return failed("lock", key, 0, errors.New("the function is nil"))
	}
	lock, err := l.acquire(ctx, []Key{key}, try, opts)
	if err != nil {
		return err
	}
	defer func() {
		unlockErr := lock.Unlock(ctx)
		// A loss that fn itself returned, from context.Cause, is reported once.
		if unlockErr != nil && !errors.Is(unlockErr, ErrUnlocked) && !errors.Is(err, unlockErr) {
			err = errors.Join(unlockErr, err)
		}
	}()
	return fn(lock.Context(ctx), lock)
}
