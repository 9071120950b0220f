package option

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/golangmigrate"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

var key pglock.Key

func options(ctx context.Context, l *pglock.Locker, tx pgx.Tx, s *semaphore.Semaphore, done *once.Scope, limiter *ratelimit.Limiter) {
	_, _ = l.Lock(ctx, key, pglock.MaxWait(time.Second), pglock.RetryUnavailable(time.Second))
	_, _ = l.TryLock(ctx, key, pglock.MaxWait(time.Second))          // want `TryLock refuses MaxWait: the call never waits`
	_ = pglock.TryLockTx(ctx, tx, key, pglock.MaxWait(0))            // want `TryLockTx refuses MaxWait`
	_, _ = s.Acquire(ctx, pglock.RetryUnavailable(time.Second))      // want `Acquire refuses RetryUnavailable: an outage fails all waiters`
	_, _ = s.TryAcquire(ctx, pglock.MaxWait(time.Second))            // want `TryAcquire refuses MaxWait`
	_ = s.Do(ctx, nil, pglock.MaxHold(time.Second), pglock.Shared()) // want `Do refuses Shared`
	_ = done.Tx(ctx, tx, "42", pglock.MaxWait(0), pglock.Shared())   // want `Tx refuses Shared`
	_ = limiter.Wait(ctx, "user:42", 1, pglock.MaxWait(time.Second))
	_ = limiter.Wait(ctx, "user:42", 1, pglock.MaxHold(time.Second)) // want `Wait refuses MaxHold: a rate limit is no lock`
	_ = golangmigrate.Open(ctx, l, key, nil, pglock.MaxWait(time.Second), golangmigrate.NativeWait(time.Second))
	_, _ = l.Lock(ctx, key, golangmigrate.NativeWait(time.Second)) // want `Lock refuses NativeWait, which is for golangmigrate.Open alone`
}
