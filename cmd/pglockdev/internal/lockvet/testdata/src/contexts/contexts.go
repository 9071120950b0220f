package contexts

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
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
		return work(ctx) // want `work under the lock runs in ctx, which does not end when the lock is lost`
	})
}

func fromOutside(ctx context.Context, l *pglock.Locker, s *semaphore.Semaphore, tx pgx.Tx) error {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := l.Do(ctx, key, func(ctx context.Context, lock *pglock.Lock) error {
		defer tx.Rollback(context.Background())
		defer func() { _ = work(context.Background()) }()
		inner, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = work(inner)
		_ = work(context.WithoutCancel(ctx))
		_ = work(lock.Context(short))
		_ = lock.GuardTx(short, tx)
		go work(context.Background())
		if tx.Exec(ctx, "SELECT 1") != nil {
			return tx.Rollback(context.Background())
		}
		_ = tx.Exec(context.TODO(), "") // want `work under the lock runs in context.TODO\(\)`
		_ = work(short)                 // want `work under the lock runs in short, which does not end`
		return nil
	})
	if err != nil {
		return work(context.Background())
	}
	return s.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
		return work(short) // want `work under the lock runs in short, which does not end`
	})
}

func new(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return work(context.Background())
	}
	defer lock.Unlock(context.Background())
	return work(context.Background()) // want `work under the lock lock runs in context.Background\(\), which does not end`
}
