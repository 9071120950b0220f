package redisfallback_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// sameNumbers are pairs of keys that are one lock on PostgreSQL and two on Redis.
var sameNumbers = map[string][2]pglock.Key{
	"two names whose hashes collide": {pglock.NewKey("user:3933f4866115e2b3"), pglock.NewKey("user:51cd15821ad4c33c")},
	"a name and its raw key":         {pglock.NewKey("invoice:42"), pglock.Int64Key(pglock.NewKey("invoice:42").Int64())},
}

func TestIdentityIsTheNameOfTheKey(t *testing.T) {
	t.Parallel()
	clients := map[string][]redis.UniversalClient{
		"one server": {newClient(t, testenv.NewRedis(t).URL())},
		"Cluster":    {newCluster(t, testenv.NewRedisCluster(t, 3))},
		"Redlock":    newClients(t, servers(t, 3)),
	}
	for what, keys := range sameNumbers {
		if !keys[0].Equal(keys[1]) {
			t.Fatalf("%s: the keys have different numbers", what)
		}
		for mode, clients := range clients {
			for kind, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
				t.Run(what+", "+mode+", "+kind, func(t *testing.T) {
					wantTwoLocks(t, keys, clients, opts)
				})
			}
		}
	}
}

func wantTwoLocks(t *testing.T, keys [2]pglock.Key, clients []redis.UniversalClient, opts []pglock.LockOption) {
	first, other := open(t, clients, nil), open(t, clients, nil)
	one := lock(t, first, keys[0], opts...)
	unlock(t, lock(t, first, keys[1]))
	unlock(t, one)

	both, err := first.LockAll(t.Context(), []pglock.Key{keys[1], keys[0], keys[1]}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		for _, l := range []*pglock.Locker{first, other} {
			if _, err := l.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrNotAcquired) {
				t.Errorf("LockAll of both, then TryLock of %v: %v", key, err)
			}
		}
		if holders, err := other.Holders(t.Context(), key); err != nil || len(holders) != 1 {
			t.Errorf("%v is held by %v, %v", key, holders, err)
		}
	}
	if stats := first.Stats(); stats.Held != 1 || len(both.Keys()) != 2 {
		t.Errorf("it holds %d Locks, and LockAll's has the keys %v", stats.Held, both.Keys())
	}
	unlock(t, both)
	for _, key := range keys {
		unlock(t, lock(t, other, key))
	}
}
