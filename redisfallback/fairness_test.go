package redisfallback_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// TestLongWaitersThatDiedCostNothing: twenty processes that waited in line have gone, as after SIGKILL. An offer to each of
// them would take 2 s, so the release skips them all.
func TestLongWaitersThatDiedCostNothing(t *testing.T) {
	t.Parallel()
	const dead = 20
	one := testenv.NewRedis(t)
	for kind, nodes := range map[string][]*testenv.RedisServer{
		"one server": {one}, "Cluster": testenv.NewRedisCluster(t, 3), "Redlock": servers(t, 3),
	} {
		for mode, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
			t.Run(kind+", "+mode, func(t *testing.T) {
				clients := func(dial dialer) []redis.UniversalClient {
					if kind == "Cluster" {
						return []redis.UniversalClient{newClusterThrough(t, nodes, dial)}
					}
					return newClientsThrough(t, nodes, dial)
				}
				link := testenv.NewLink(0)
				defer link.Close()
				var admins []*redis.Client
				for _, node := range nodes {
					admins = append(admins, newClient(t, node.URL()))
				}
				key := pglock.NewKey("k, " + mode)
				holder, living := open(t, clients(nil), nil), open(t, clients(nil), nil)
				// The first call of a Redlock has a second to reach the nodes, which is too short on a busy machine.
				reached := pglock.RetryUnavailable(time.Minute)
				held, err := holder.Lock(t.Context(), key, reached)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var calls sync.WaitGroup
				defer calls.Wait()
				defer cancel()
				for i := range dead {
					l := open(t, clients(link.Dial), nil)
					calls.Go(func() {
						if _, err := l.Lock(ctx, key, append(slices.Clone(opts), reached)...); err == nil {
							t.Error("a waiter that died got the lock")
						}
					})
					testenv.WaitUntil(t, "it is in line", func() bool { return slices.Max(waiters(t, admins)) >= i+1 })
				}
				got := make(chan *pglock.Lock)
				go func() {
					next, err := living.Lock(t.Context(), key, append(slices.Clone(opts), reached)...)
					if err != nil {
						t.Error(err)
					}
					got <- next
				}()
				testenv.WaitUntil(t, "a live one waits as well", func() bool { return slices.Max(waiters(t, admins)) >= dead+1 })
				link.Close()
				testenv.WaitUntil(t, "the servers have noticed", func() bool { return listeners(t, admins) <= 1 })
				unlock(t, held)
				left := waiters(t, admins)
				slices.Sort(left)
				n := left[len(left)-1]
				if kind == "Redlock" { // a release has been answered by most servers
					n = left[len(left)/2]
				}
				if n > 1 {
					t.Errorf("after the release %d are in line, and one of them lives", n)
				}
				if next := <-got; next != nil {
					unlock(t, next)
				}
			})
		}
	}
}

// dialer makes the connections of a client; nil is the usual one.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// newClientsThrough returns a client for each node.
func newClientsThrough(t *testing.T, nodes []*testenv.RedisServer, dial dialer) (clients []redis.UniversalClient) {
	t.Helper()
	for _, node := range nodes {
		clients = append(clients, closing(t, redis.NewClient(&redis.Options{Addr: node.Addr(), Dialer: dial})))
	}
	return clients
}

// newClusterThrough returns a client of a Cluster.
func newClusterThrough(t *testing.T, nodes []*testenv.RedisServer, dial dialer) *redis.ClusterClient {
	t.Helper()
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
	}
	return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: dial}))
}

// waiters returns the length of the line on each node.
func waiters(t *testing.T, admins []*redis.Client) (lengths []int) {
	t.Helper()
	for _, admin := range admins {
		n := 0
		for _, pattern := range []string{"*:pglock:writers:*", "*:pglock:readers:*"} {
			lines, err := admin.Keys(t.Context(), pattern).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range lines {
				n += int(admin.ZCard(t.Context(), line).Val())
			}
		}
		lengths = append(lengths, n)
	}
	return lengths
}

// listeners returns how many Lockers have subscribed, on the node with most.
func listeners(t *testing.T, admins []*redis.Client) (most int) {
	t.Helper()
	for _, admin := range admins {
		plain, err := admin.PubSubChannels(t.Context(), "pglock:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		sharded, err := admin.PubSubShardChannels(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(plain)+len(sharded))
	}
	return most
}

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
			ours := 0
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); ours++ {
				held := lock(t, lockers[ours%2], pglock.NewKey("k"))
				time.Sleep(hold)
				unlock(t, held)
				time.Sleep(every)
			}
			stop()
			all.Wait()
			t.Logf("they got the lock %d times, we %d times", theirs.Load(), ours)
			if all := int(theirs.Load()) + ours; ours*10 < all {
				t.Errorf("they got the lock %d times, we %d times", theirs.Load(), ours)
			}
		})
	}
}
