// Package redispeer takes and releases locks on Redis with package redisfallback and with what else one would use, each
// configured as its documentation advises for one server.
package redispeer

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

// Peer takes and releases locks of one library.
type Peer struct {
	Lock  func(ctx context.Context, name string) (unlock func() error, err error) // waits
	Close func() error
}

// Names of peers.
const (
	Ours = "pglock"
	Bare = "bare"
)

// Rivals are the names of the other libraries.
var Rivals = []string{"rueidislock", "redsync", "bsm/redislock"}

// Open makes a peer for the server at an address.
var Open = map[string]func(addr string) (*Peer, error){
	Ours: openPglock, Bare: openBare, "rueidislock": openRueidislock, "redsync": openRedsync, "bsm/redislock": openBsm,
}

const lease = 15 * time.Second

// clientFor gives every library on go-redis the same client, with enough connections for all waiting calls.
func clientFor(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, PoolTimeout: time.Minute})
}

func openPglock(addr string) (*Peer, error) {
	client := clientFor(addr)
	l, err := redisfallback.New(client, pglock.WithLease(lease))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return Of(l, client.Close), nil
}

// Of returns a peer that takes the locks of l. Its Close closes l, and then what else it needs.
func Of(l *pglock.Locker, more ...func() error) *Peer {
	return &Peer{
		Lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Lock(ctx, pglock.NewKey(name))
			if err != nil {
				return nil, err
			}
			return func() error { return k.Unlock(ctx) }, nil
		},
		Close: func() error {
			err := l.Close(context.Background())
			for _, closeOne := range more {
				err = errors.Join(err, closeOne())
			}
			return err
		},
	}
}

func openRueidislock(addr string) (*Peer, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1, KeyValidity: lease,
	})
	if err != nil {
		return nil, err
	}
	return &Peer{
		Lock: func(ctx context.Context, name string) (func() error, error) {
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
		Close: func() error { l.Close(); return nil },
	}, nil
}

func openRedsync(addr string) (*Peer, error) {
	client := clientFor(addr)
	rs := redsync.New(goredis.NewPool(client))
	return &Peer{
		Lock: func(ctx context.Context, name string) (func() error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error { _, err := m.UnlockContext(ctx); return err }, nil
		},
		Close: client.Close,
	}, nil
}

// retryEvery is half the interval in the example of bsm/redislock's documentation.
const retryEvery = 50 * time.Millisecond

func openBsm(addr string) (*Peer, error) {
	client := clientFor(addr)
	l := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	return &Peer{
		Lock: func(ctx context.Context, name string) (func() error, error) {
			k, err := l.Obtain(ctx, name, lease, options)
			if err != nil {
				return nil, err
			}
			return func() error { return k.Release(ctx) }, nil
		},
		Close: client.Close,
	}, nil
}

// release compares and deletes.
var release = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`)

// openBare is the least that a lock costs: SET NX PX, and a script that compares and deletes. It does not
// wait.
func openBare(addr string) (*Peer, error) {
	client := clientFor(addr)
	return &Peer{
		Lock: func(ctx context.Context, name string) (func() error, error) {
			if err := client.SetArgs(ctx, name, "token", redis.SetArgs{Mode: "NX", TTL: lease}).Err(); err != nil {
				return nil, err
			}
			return func() error { return release.Run(ctx, client, []string{name}, "token").Err() }, nil
		},
		Close: client.Close,
	}, nil
}
