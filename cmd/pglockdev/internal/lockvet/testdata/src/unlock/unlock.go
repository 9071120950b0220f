package unlock

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/pglock"
)

var key pglock.Key

func work() error { return nil }

func dropped(ctx context.Context, l *pglock.Locker) {
	l.Lock(ctx, key)           // want `the lock is dropped`
	_, err := l.Lock(ctx, key) // want `the lock is dropped`
	_ = err
}

func deferred(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return work()
}

func leaks(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key) // want `the lock lock is not unlocked on the path that returns in line 35`
	if err != nil {
		return err
	}
	if err = work(); err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func never(ctx context.Context, l *pglock.Locker) {
	lock, err := l.TryLock(ctx, key) // want `is not unlocked on the path that returns in line 46`
	if err != nil {
		return
	}
	_ = lock.Key()
}

func around(ctx context.Context, l *pglock.Locker) {
	for {
		lock, err := l.Lock(ctx, key) // want `is not unlocked`
		if err != nil {
			return
		}
		if work() == nil {
			lock.Unlock(ctx)
			return
		}
	}
}

func returned(ctx context.Context, l *pglock.Locker) (*pglock.Lock, error) {
	lock, err := l.LockAll(ctx, nil)
	return lock, err
}

func stored(ctx context.Context, l *pglock.Locker, to *struct{ lock *pglock.Lock }) {
	lock, err := l.Lock(ctx, key)
	if err == nil {
		to.lock = lock
	}
	to.lock, err = l.Lock(ctx, key)
}

func inClosure(ctx context.Context, l *pglock.Locker) {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		panic(err)
	}
	defer func() { _ = lock.Unlock(ctx) }()
	_ = lock.Context(ctx)
}

func switched(ctx context.Context, l *pglock.Locker) {
	lock, err := l.Lock(ctx, key)
	switch {
	case errors.Is(err, context.Canceled):
		return
	case err != nil:
		panic(err)
	}
	_ = lock.Unlock(ctx)
}

func namedResult(ctx context.Context, l *pglock.Locker) (err error) {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	return work()
}

func selected(ctx context.Context, l *pglock.Locker, stop chan struct{}) {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		panic(err)
	}
	for {
		select {
		case <-stop:
			_ = lock.Unlock(ctx)
			return
		case <-ctx.Done():
			_ = lock.Unlock(ctx)
			return
		}
	}
}

func again(ctx context.Context, l *pglock.Locker) (*pglock.Lock, error) {
	for {
		lock, err := l.TryLock(ctx, key)
		if !errors.Is(err, context.Canceled) {
			return lock, err
		}
	}
}

func asked(ctx context.Context, l *pglock.Locker) (*pglock.Lock, error) {
	lock, err := l.TryLock(ctx, key)
	held, isHeld := errors.AsType[*pathError](err)
	if !isHeld {
		return lock, err
	}
	return nil, held
}

func both(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.TryLock(ctx, key)
	if ctx != nil && err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

type pathError struct{}

func (*pathError) Error() string { return "" }

var errHeld error

func compared(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.TryLock(ctx, key)
	if err == errHeld {
		return nil
	}
	defer lock.Unlock(ctx)
	return err
}

func either(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.TryLock(ctx, key)
	switch {
	case err == nil || ctx == nil:
		return lock.Unlock(ctx)
	}
	return err
}
