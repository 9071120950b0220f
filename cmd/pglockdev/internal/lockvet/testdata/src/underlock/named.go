package underlock

import (
	"context"
	"os/signal"

	"github.com/pglock-toolkit/pglock/pglock"
)

type service struct{ ctx context.Context }

func (s service) run(ctx context.Context, _ *pglock.Lock) error {
	_ = work(s.ctx)                // want `work under the lock runs in the context ctx of another object`
	_ = work(context.Background()) // want `work under the lock runs in context.Background\(\)`
	_, _ = signal.NotifyContext(context.Background())
	return work(ctx)
}

func declared(_ context.Context, lock *pglock.Lock) error {
	_ = work(lock.Context(context.Background()))
	return work(context.TODO()) // want `work under the lock runs in context.TODO\(\)`
}

// notPassed has the form of such a function, but nothing runs it under a lock.
func notPassed(context.Context, *pglock.Lock) error { return work(context.Background()) }

func byName(ctx context.Context, l *pglock.Locker, s service) error {
	_ = l.Do(ctx, key, s.run)
	_ = l.Do(ctx, key, declared)
	_ = l.Do(ctx, key, declared)
	literal := func(context.Context, *pglock.Lock) error {
		return work(ctx) // want `work under the lock runs in ctx of the function around it`
	}
	_ = l.Do(ctx, key, literal)
	other := func(context.Context, *pglock.Lock) error { return work(ctx) }
	other = declared
	return l.Do(ctx, key, other)
}

func new(ctx context.Context, l *pglock.Locker) error {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		return work(context.Background())
	}
	defer lock.Unlock(context.Background())
	stop, cancel := signal.NotifyContext(context.Background())
	defer cancel()
	_ = stop
	return work(context.Background()) // want `work under the lock lock runs in context.Background\(\), which does not end`
}
