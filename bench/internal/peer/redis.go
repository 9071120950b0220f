package peer

import (
	"context"
	"strconv"
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

const lease = 15 * time.Second

// clientFor gives every library on go-redis the same client, with enough connections for all waiting calls.
func clientFor(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: PoolSize, PoolTimeout: time.Minute})
}

func openRedis(_ context.Context, at Addresses) (*Peer, error) { return onClients(clientFor(at.Redis)) }

// SentinelName is the Sentinels' name of their primary.
const SentinelName = "locks"

func openSentinel(_ context.Context, at Addresses) (*Peer, error) {
	return onClients(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: SentinelName, SentinelAddrs: at.Sentinels}))
}

func openCluster(_ context.Context, at Addresses) (*Peer, error) {
	return onClients(redis.NewClusterClient(&redis.ClusterOptions{Addrs: at.Cluster}))
}

func openRedlock(n int) func(context.Context, Addresses) (*Peer, error) {
	return func(_ context.Context, at Addresses) (*Peer, error) {
		var clients []redis.UniversalClient
		for _, addr := range at.Redlock[:n] {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
		}
		return onClients(clients...)
	}
}

// onClients returns the peer of a Locker of redisfallback, which closes its clients.
func onClients(clients ...redis.UniversalClient) (*Peer, error) {
	var closes []func() error
	for _, client := range clients {
		closes = append(closes, client.Close)
	}
	var l *pglock.Locker
	var err error
	if len(clients) == 1 {
		l, err = redisfallback.New(clients[0], pglock.WithLease(lease))
	} else {
		l, err = redisfallback.NewRedlock(clients, pglock.WithLease(lease))
	}
	if err != nil {
		return nil, err
	}
	return ofLocker(l, closes...), nil
}

func named(key int64) string { return "key:" + strconv.FormatInt(key, 10) }

func openRueidislock(_ context.Context, at Addresses) (*Peer, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{at.Redis}},
		KeyMajority:  1, KeyValidity: lease,
	})
	if err != nil {
		return nil, err
	}
	return &Peer{
		Lock: func(ctx context.Context, _ int, key int64) (unlock, error) {
			for {
				// It sometimes waits for ever for a free key, so the call is repeated.
				bounded, stop := context.WithTimeout(ctx, time.Second)
				_, cancel, err := l.WithContext(bounded, named(key))
				if err == nil {
					return func(context.Context) error { cancel(); stop(); return nil }, nil
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

func openRedsync(_ context.Context, at Addresses) (*Peer, error) {
	client := clientFor(at.Redis)
	rs := redsync.New(goredis.NewPool(client))
	return &Peer{
		Lock: func(ctx context.Context, _ int, key int64) (unlock, error) {
			m := rs.NewMutex(named(key), redsync.WithExpiry(lease), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, nil
		},
		Close: client.Close,
	}, nil
}

// retryEvery is half the interval in the example of bsm/redislock's documentation.
const retryEvery = 50 * time.Millisecond

func openRedislock(_ context.Context, at Addresses) (*Peer, error) {
	client := clientFor(at.Redis)
	l := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	return &Peer{
		Lock: func(ctx context.Context, _ int, key int64) (unlock, error) {
			lock, err := l.Obtain(ctx, named(key), lease, options)
			if err != nil {
				return nil, err
			}
			return lock.Release, nil
		},
		Close: client.Close,
	}, nil
}

// release compares and deletes.
var release = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`)

// openBareRedis is the least that a lock costs: SET NX PX, and a script that compares and deletes. It does not wait.
func openBareRedis(_ context.Context, at Addresses) (*Peer, error) {
	client := clientFor(at.Redis)
	return &Peer{
		Lock: func(ctx context.Context, _ int, key int64) (unlock, error) {
			name := named(key)
			if err := client.SetArgs(ctx, name, "token", redis.SetArgs{Mode: "NX", TTL: lease}).Err(); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				return release.Run(ctx, client, []string{name}, "token").Err()
			}, nil
		},
		Close: client.Close,
	}, nil
}
