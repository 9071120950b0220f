package histories_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// lease is short, so that faults take little time.
const lease = time.Second

// openRedis adds a Locker on Redis. It gives up quickly if a server does not answer.
func (r *run) openRedis(clients ...redis.UniversalClient) {
	r.Helper()
	b, err := redisfallback.NewBackend(clients, redisfallback.WithNodeTimeout(lease/4))
	if err != nil {
		r.Fatal(err)
	}
	l, err := pglock.NewWithBackend(b, pglock.WithLease(lease))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			r.Error(err)
		}
		for _, client := range clients {
			if err := client.Close(); err != nil {
				r.Error(err)
			}
		}
	})
	r.lockers = append(r.lockers, l)
}

func newClient(server *redisserver.Server) redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: server.Addr()})
}

// pause lets a fault last, or ends it when the test is over.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestLongRedisLocksAreLinearizable(t *testing.T) {
	server := testenv.NewRedis(t)
	r := &run{T: t, history: histories.New(), looks: true, fence: (*pglock.Lock).Fence}
	for range 3 {
		r.openRedis(newClient(server))
	}
	r.work(func(ctx context.Context) { <-ctx.Done() })
}

// The server stops for less and for more than a lease, and loses its connections and scripts, but never its data.
func TestLongRedisLocksAreLinearizableWhateverHappensToTheServer(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	r := &run{T: t, history: histories.New(), looks: true, rest: 10 * time.Millisecond, stay: 2 * lease, rounds: 3}
	for range 3 {
		r.openRedis(newClient(server))
	}
	r.work(func(ctx context.Context) {
		pause(ctx, 300*time.Millisecond)
		for _, command := range []string{
			"SCRIPT FLUSH", "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal", "CLIENT PAUSE 300", "CLIENT PAUSE 1300",
		} {
			_, _ = server.Do(strings.Fields(command)...) // fails while clients are paused
			pause(ctx, 300*time.Millisecond)
		}
		for _, d := range []time.Duration{lease / 3, 3 * lease / 2} {
			must.Succeed(t, server.Pause())
			pause(ctx, d)
			must.Succeed(t, server.Resume())
			pause(ctx, 300*time.Millisecond)
		}
	})
}
