package redis_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// peer takes and releases locks of one library, each configured as its documentation advises for one server.
type peer struct {
	lock  func(ctx context.Context, name string) (unlock func() error, err error)
	close func()
}

const lease = 15 * time.Second

// peers make one for the server at an address.
var peers = map[string]func(testing.TB, string) peer{
	"pglock": newPglock, "rueidislock": newRueidislock, "redsync": newRedsync, "bsm": newBsm, "bare": newBare,
}

// clientFor gives every library on go-redis the same client: enough connections for all that wait for an answer.
func clientFor(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, PoolTimeout: time.Minute})
}

func newPglock(t testing.TB, addr string) peer {
	client := clientFor(addr)
	l, err := redisfallback.New(client, pglock.WithLease(lease))
	if err != nil {
		t.Fatal(err)
	}
	return peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Lock(ctx, pglock.NewKey(name))
			if err != nil {
				return nil, err
			}
			return func() error { return k.Unlock(ctx) }, nil
		},
		close: func() {
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
			_ = client.Close()
		},
	}
}

func newRueidislock(t testing.TB, addr string) peer {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1, KeyValidity: lease,
	})
	if err != nil {
		t.Fatal(err)
	}
	return peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			for {
				// It has been seen to wait for ever for a key that is free: then it is asked again.
				bounded, stop := context.WithTimeout(ctx, time.Second)
				_, cancel, err := l.WithContext(bounded, name)
				if err == nil {
					return func() error { cancel(); stop(); return nil }, nil
				}
				stop()
				if ctx.Err() != nil {
					return nil, err
				}
			}
		},
		close: l.Close,
	}
}

func newRedsync(_ testing.TB, addr string) peer {
	client := clientFor(addr)
	rs := redsync.New(goredis.NewPool(client))
	return peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error { _, err := m.Unlock(); return err }, nil
		},
		close: func() { _ = client.Close() },
	}
}

func newBsm(_ testing.TB, addr string) peer {
	client := clientFor(addr)
	l := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond)}
	return peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Obtain(ctx, name, lease, options)
			if err != nil {
				return nil, err
			}
			return func() error { return k.Release(ctx) }, nil
		},
		close: func() { _ = client.Close() },
	}
}

// newBare is what a lock costs at least: SET NX PX, and a script that compares and deletes.
func newBare(_ testing.TB, addr string) peer {
	client := clientFor(addr)
	release := redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	return peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			if err := client.SetArgs(ctx, name, "token", redis.SetArgs{Mode: "NX", TTL: lease}).Err(); err != nil {
				return nil, err
			}
			return func() error { return release.Run(ctx, client, []string{name}, "token").Err() }, nil
		},
		close: func() { _ = client.Close() },
	}
}

// pairs counts how many times goroutines lock and unlock keys of their own in a time.
func pairs(t testing.TB, p peer, goroutines int, d time.Duration) int {
	ctx := context.Background()
	counts := make([]int, goroutines)
	var workers sync.WaitGroup
	end := time.Now().Add(d)
	for i := range goroutines {
		name := "key:" + strconv.Itoa(i)
		workers.Go(func() {
			for time.Now().Before(end) {
				unlock, err := p.lock(ctx, name)
				if err == nil {
					err = unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
				counts[i]++
			}
		})
	}
	workers.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
