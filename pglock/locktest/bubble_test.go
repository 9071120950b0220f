package locktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// In a bubble the time is the year 2000, before this process began. What waits for a while there ends when that while has
// passed, not years later.
func TestInABubbleEachPrimitiveTakesTheTimeThatItShould(t *testing.T) {
	key := pglock.NewKey("k")
	for name, use := range map[string]func(t *testing.T, l *pglock.Locker){
		"a lock": func(t *testing.T, l *pglock.Locker) {
			lock, err := l.Lock(t.Context(), key, pglock.MaxHold(time.Minute))
			must.Succeed(t, err)
			<-lock.Done()
			if !errors.Is(lock.Err(), pglock.ErrLost) {
				t.Error(lock.Err())
			}
		},
		"a semaphore": func(t *testing.T, l *pglock.Locker) {
			permits, err := semaphore.New(l, key, 1)
			must.Succeed(t, err)
			held, err := permits.Acquire(t.Context())
			must.Succeed(t, err)
			time.AfterFunc(time.Minute, func() { _ = held.Release(context.Background()) })
			next, err := permits.Acquire(t.Context())
			must.Succeed(t, err)
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"a leader": func(t *testing.T, l *pglock.Locker) {
			ctx, stop := context.WithCancel(t.Context())
			err := leader.Run(ctx, l, key, func(context.Context, *pglock.Lock) error {
				time.Sleep(time.Minute)
				stop()
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"a job": func(t *testing.T, l *pglock.Locker) {
			job, err := schedule.New(l, key)
			must.Succeed(t, err)
			ran := false
			err = job.Run(t.Context(), time.Now().Add(time.Minute), func(context.Context, *pglock.Lock) error { ran = true; return nil })
			if err != nil || !ran {
				t.Errorf("ran: %v, %v", ran, err)
			}
		},
		"a rate limit": func(t *testing.T, _ *pglock.Locker) {
			limiter, err := locktest.NewLimiter(key)
			must.Succeed(t, err)
			for range 60 {
				must.Succeed(t, limiter.Wait(t.Context(), "id", ratelimit.PerSecond(1)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := locktest.NewMemory()
				must.Succeed(t, err)
				began := time.Now()
				use(t, l)
				if took := time.Since(began).Round(time.Second); took < 59*time.Second || took > 2*time.Minute {
					t.Errorf("it took %v of the bubble's time", took)
				}
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
