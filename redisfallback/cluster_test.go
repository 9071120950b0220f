package redisfallback_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestClusterLocksSurviveTheMigrationOfTheirSlot goes through a migration step by step, and uses locks at each of them.
func TestClusterLocksSurviveTheMigrationOfTheirSlot(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	client := newCluster(t, nodes)
	first := open(t, []redis.UniversalClient{client}, nil)
	other := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	ctx := t.Context()
	key := pglock.NewKey("{moving}kept")
	slot := int(client.ClusterKeySlot(ctx, "{moving}").Val())
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	id := func(s *redisserver.Server) string { return testenv.AskRedis(t, s, "CLUSTER", "MYID") }
	number := strconv.Itoa(slot)
	// Once with a key of the slot that is in use from the start, and once with a key of another slot.
	kept := lock(t, first, key)
	use := func(step string) {
		t.Helper()
		if err := kept.Verify(ctx); err != nil {
			t.Errorf("%s: the earlier lock: %v", step, err)
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
	testenv.AskRedis(t, to, "CLUSTER", "SETSLOT", number, "IMPORTING", id(from))
	testenv.AskRedis(t, from, "CLUSTER", "SETSLOT", number, "MIGRATING", id(to))
	use("migrating")
	testenv.AskRedis(t, from, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "pglock:{moving}kept", "0", "5000")
	use("key moved")
	unlock(t, kept)
	kept = lock(t, first, key)
	for _, node := range []*redisserver.Server{to, from, nodes[(slot*3/16384+2)%3]} {
		testenv.AskRedis(t, node, "CLUSTER", "SETSLOT", number, "NODE", id(to))
	}
	use("after")
	unlock(t, kept)
}

func TestClusterLocksOfSeveralSlotsAreTakenTogether(t *testing.T) {
	t.Parallel()
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
		must.Succeed(t, err)
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

func TestClusterWakesWaitersOfAllSlotsOverOneConnection(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	first := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	other := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	const keys = 30
	var held []*pglock.Lock
	for i := range keys {
		held = append(held, lock(t, first, pglock.NewKey(strconv.Itoa(i))))
	}
	got := make(chan error, keys)
	for i := range keys {
		go func() {
			k, err := other.Lock(t.Context(), pglock.NewKey(strconv.Itoa(i)))
			if err == nil {
				err = k.Unlock(t.Context())
			}
			got <- err
		}()
	}
	testenv.WaitUntil(t, "all are in line", func() bool { return inLines(t, nodes) == keys })
	subscriptions := 0
	for _, node := range nodes {
		subscriptions += strings.Count(testenv.AskRedis(t, node, "CLIENT", "LIST", "TYPE", "pubsub"), "\n")
	}
	if subscriptions != 1 {
		t.Errorf("there are %d connections for messages of one Locker", subscriptions)
	}
	for _, k := range held {
		unlock(t, k)
	}
	for range keys {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// inLines counts the waiters on all servers.
func inLines(t *testing.T, nodes []*redisserver.Server) (total int) {
	t.Helper()
	for _, node := range nodes {
		total += inLine(t, newClient(t, node.URL()))
	}
	return total
}

// TestClusterAWaiterIsWokenAfterItsSubscriptionEndsAndItsSlotMoves kills the subscription, and moves the slot.
func TestClusterAWaiterIsWokenAfterItsSubscriptionEndsAndItsSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 2)
	first := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	other := open(t, []redis.UniversalClient{newCluster(t, nodes)}, nil)
	key := pglock.NewKey("{moving}k")
	slot := int(newCluster(t, nodes).ClusterKeySlot(t.Context(), "{moving}").Val())
	from, to := nodes[slot*2/16384], nodes[1-slot*2/16384]
	held := lock(t, first, key)
	got := make(chan *pglock.Lock, 1)
	go func() {
		next, err := other.Lock(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	testenv.WaitUntil(t, "the waiter is in line", func() bool { return inLine(t, newClient(t, from.URL())) == 1 })
	for _, node := range nodes {
		testenv.AskRedis(t, node, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	moveSlot(t, nodes, from, to, slot)
	unlock(t, held)
	if next := <-got; next != nil {
		unlock(t, next)
	}
}

// moveSlot moves a slot with all its keys.
func moveSlot(t *testing.T, nodes []*redisserver.Server, from, to *redisserver.Server, slot int) {
	t.Helper()
	id := func(s *redisserver.Server) string { return testenv.AskRedis(t, s, "CLUSTER", "MYID") }
	number := strconv.Itoa(slot)
	testenv.AskRedis(t, to, "CLUSTER", "SETSLOT", number, "IMPORTING", id(from))
	testenv.AskRedis(t, from, "CLUSTER", "SETSLOT", number, "MIGRATING", id(to))
	keys, err := newClient(t, from.URL()).ClusterGetKeysInSlot(t.Context(), slot, 1000).Result()
	must.Succeed(t, err)
	testenv.AskRedis(t, from, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000", "KEYS"}, keys...)...)
	for _, node := range append([]*redisserver.Server{to, from}, nodes...) {
		testenv.AskRedis(t, node, "CLUSTER", "SETSLOT", number, "NODE", id(to))
	}
}
