package underlock

import (
	"context"
	"log/slog"

	"github.com/pglock-toolkit/pglock/pglock"
)

var key pglock.Key

func work(context.Context) error { return nil }

func ignores(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		work(ctx)
		return err
	}
	defer lock.Unlock(ctx)
	slog.InfoContext(ctx, "locked")
	return work(ctx) // want `work under the lock lock runs in ctx, which does not end when the lock is lost`
}

func watches(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return work(lock.Context(ctx))
}

func asks(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	for lock.Err() == nil {
		work(ctx)
	}
	return nil
}

func do(ctx context.Context, l *pglock.Locker) error {
	_ = l.Do(ctx, key, func(ctx context.Context, _ *pglock.Lock) error { return work(ctx) })
	return l.Do(ctx, key, func(context.Context, *pglock.Lock) error {
		return work(ctx) // want `work under the lock runs in ctx of the function around it`
	})
}
