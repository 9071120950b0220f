package redisfallback_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestLocksSurviveTheMigrationOfTheirSlot goes through a migration step by step, and uses locks at each of them.
func TestLocksSurviveTheMigrationOfTheirSlot(t *testing.T) {
	nodes := testenv.NewRedisCluster(t, 3)
	client := newCluster(t, nodes)
	first := open(t, []redis.UniversalClient{client}, nil)
	other := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	ctx := t.Context()
	key := pglock.NewKey("{moving}kept")
	slot := int(client.ClusterKeySlot(ctx, "{moving}").Val())
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	id := func(s *testenv.RedisServer) string { return s.Must(t, "CLUSTER", "MYID") }
	number := strconv.Itoa(slot)
	// On a key of the slot that is in use from the start, and on one that is not.
	kept := lock(t, first, key)
	use := func(step string) {
		t.Helper()
		if err := kept.Verify(ctx); err != nil {
			t.Errorf("%s: the lock from before: %v", step, err)
		}
		err := other.Do(ctx, pglock.NewKey("{moving}"+step), func(ctx context.Context, k *pglock.Lock) error {
			_, err := first.TryLock(ctx, k.Key())
			if err == nil {
				return fmt.Errorf("a held key was locked")
			}
			return k.Verify(ctx)
		})
		if err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	use("before")
	to.Must(t, "CLUSTER", "SETSLOT", number, "IMPORTING", id(from))
	from.Must(t, "CLUSTER", "SETSLOT", number, "MIGRATING", id(to))
	use("migrating")
	from.Must(t, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "pglock:{moving}kept", "0", "5000")
	use("key moved")
	unlock(t, kept)
	kept = lock(t, first, key)
	for _, node := range []*testenv.RedisServer{to, from, nodes[(slot*3/16384+2)%3]} {
		node.Must(t, "CLUSTER", "SETSLOT", number, "NODE", id(to))
	}
	use("after")
	unlock(t, kept)
}

func TestLocksOfSeveralSlotsAreTakenTogether(t *testing.T) {
	nodes := testenv.NewRedisCluster(t, 3)
	first := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	other := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	var keys []pglock.Key
	for i := range 20 {
		keys = append(keys, pglock.NewKey(fmt.Sprintf("a}b{%d", i)))
	}
	var last int64
	for round := range 4 {
		l := []*pglock.Locker{first, other}[round%2]
		held, err := l.LockAll(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		number, err := held.Fence(t.Context())
		if err != nil || number <= last {
			t.Errorf("the fence is %d after %d, %v", number, last, err)
		}
		last = number
		unlock(t, held)
		one := lock(t, l, keys[round])
		if number, err := one.Fence(t.Context()); err != nil || number <= last {
			t.Errorf("the fence of one is %d after %d, %v", number, last, err)
		} else {
			last = number
		}
		unlock(t, one)
	}
}
