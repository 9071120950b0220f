package redisfallback_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestWaitersGetTheirShareBesideOthersThatPoll: the others release with DEL and publish nothing, as redis-py does. Some pause
// before they ask again, and some ask at once, so that the lock is free for some 100 µs.
func TestWaitersGetTheirShareBesideOthersThatPoll(t *testing.T) {
	const pollers, every, hold = 3, 100 * time.Millisecond, 50 * time.Millisecond
	for name, pause := range map[string]time.Duration{"with a pause": every, "without a pause": 0} {
		t.Run(name, func(t *testing.T) {
			server := testenv.NewRedis(t)
			ctx, stop := context.WithCancel(t.Context())
			var theirs atomic.Int64
			var all sync.WaitGroup
			for i := range pollers {
				client := newClient(t, server.URL())
				all.Go(func() {
					for ctx.Err() == nil {
						if !client.SetNX(ctx, "pglock:k", fmt.Sprintf("token-%d", i), 10*time.Second).Val() {
							time.Sleep(every)
							continue
						}
						theirs.Add(1)
						time.Sleep(hold) // the work
						client.Del(context.WithoutCancel(ctx), "pglock:k")
						time.Sleep(pause)
					}
				})
			}
			lockers := []*pglock.Locker{
				open(t, []redis.UniversalClient{newClient(t, server.URL())}, nil),
				open(t, []redis.UniversalClient{newClient(t, server.URL())}, nil),
			}
			testenv.WaitUntil(t, "the others are running", func() bool { return theirs.Load() > 2 })
			// On a busy machine others may be scheduled at the wrong moments for a while, but not again and again.
			var us, them int
			for range 4 {
				us, them = 0, int(theirs.Load())
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end); us++ {
					held := lock(t, lockers[us%2], pglock.NewKey("k"))
					time.Sleep(hold)
					unlock(t, held)
					time.Sleep(every)
				}
				if them = int(theirs.Load()) - them; us*10 >= us+them {
					break
				}
			}
			stop()
			all.Wait()
			t.Logf("they got the lock %d times, we %d times", them, us)
			if us*10 < us+them {
				t.Errorf("they got the lock %d times, we %d times", them, us)
			}
		})
	}
}
