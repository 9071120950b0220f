package main

import (
	"context"
	"errors"
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

// peer takes and releases locks of one library, configured as its documentation advises for one server.
type peer struct {
	lock  func(ctx context.Context, name string) (unlock func() error, err error) // waits
	close func() error
}

// What is compared.
const (
	ours = "pglock"
	bare = "bare"
)

var rivals = []string{"rueidislock", "redsync", "bsm/redislock"}

// peers make a peer for the server at an address.
var peers = map[string]func(addr string) (*peer, error){
	ours: newPglock, bare: newBare, "rueidislock": newRueidislock, "redsync": newRedsync, "bsm/redislock": newBsm,
}

const lease = 15 * time.Second

// clientFor gives every library on go-redis the same client, with enough connections for all waiting calls.
func clientFor(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, PoolTimeout: time.Minute})
}

func newPglock(addr string) (*peer, error) {
	client := clientFor(addr)
	l, err := redisfallback.New(client, pglock.WithLease(lease))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Lock(ctx, pglock.NewKey(name))
			if err != nil {
				return nil, err
			}
			return func() error { return k.Unlock(ctx) }, nil
		},
		close: func() error { return errors.Join(l.Close(context.Background()), client.Close()) },
	}, nil
}

func newRueidislock(addr string) (*peer, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1, KeyValidity: lease,
	})
	if err != nil {
		return nil, err
	}
	return &peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			for {
				// It sometimes waits for ever for a free key, so the call is repeated.
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
		close: func() error { l.Close(); return nil },
	}, nil
}

func newRedsync(addr string) (*peer, error) {
	client := clientFor(addr)
	rs := redsync.New(goredis.NewPool(client))
	return &peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error { _, err := m.UnlockContext(ctx); return err }, nil
		},
		close: client.Close,
	}, nil
}

// retryEvery is half the interval in the example of bsm/redislock's documentation.
const retryEvery = 50 * time.Millisecond

func newBsm(addr string) (*peer, error) {
	client := clientFor(addr)
	l := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	return &peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Obtain(ctx, name, lease, options)
			if err != nil {
				return nil, err
			}
			return func() error { return k.Release(ctx) }, nil
		},
		close: client.Close,
	}, nil
}

// release compares and deletes.
var release = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`)

// newBare is the least that a lock costs: SET NX PX, and a script that compares and deletes. It does not
// wait.
func newBare(addr string) (*peer, error) {
	client := clientFor(addr)
	return &peer{
		lock: func(ctx context.Context, name string) (func() error, error) {
			if err := client.SetArgs(ctx, name, "token", redis.SetArgs{Mode: "NX", TTL: lease}).Err(); err != nil {
				return nil, err
			}
			return func() error { return release.Run(ctx, client, []string{name}, "token").Err() }, nil
		},
		close: client.Close,
	}, nil
}
