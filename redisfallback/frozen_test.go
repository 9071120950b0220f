package redisfallback_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// TestFaultsRedlockWithAFrozenNodeKeepsItsMemory: abandoned calls to the frozen node must not accumulate. After the node has
// thawed and another one was killed, its vote is needed.
func TestFaultsRedlockWithAFrozenNodeKeepsItsMemory(t *testing.T) {
	nodes := servers(t, 3)
	l := open(t, newClients(t, nodes), nil)
	key := pglock.NewKey("k")
	pairs := func(d time.Duration) (n int) {
		for end := time.Now().Add(d); time.Now().Before(end); n++ {
			unlock(t, lock(t, l, key))
		}
		return n
	}
	pairs(100 * time.Millisecond)
	before := heap()
	must.Succeed(t, nodes[0].Pause())
	n := pairs(time.Second)
	const bound = 16 << 20 // without a breaker, each pair leaves two calls of about 2 kB: see the log
	if grown := heap() - before; grown > bound {
		t.Errorf("after %d pairs beside a frozen node the heap has grown by %d MiB", n, grown>>20)
	} else {
		t.Logf("%d pairs beside a frozen node; the heap has grown by %d KiB", n, grown>>10)
	}
	must.Succeed(t, nodes[0].Resume())
	awaitVote(t, l, nodes[0])
	must.Succeed(t, nodes[1].Kill())
	unlock(t, lockWhenAvailable(t, l, key))
}

// awaitVote waits until a node takes part in locks again.
func awaitVote(t *testing.T, l *pglock.Locker, node *redisserver.Server) {
	t.Helper()
	unlock(t, lockEverywhere(t, l, pglock.NewKey("vote"), []*redisserver.Server{node}))
}

// heap returns how much memory is allocated and in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lockEverywhere locks a key on all nodes. A lock stays without a node that did not answer in time, so then it locks again.
func lockEverywhere(t *testing.T, l *pglock.Locker, key pglock.Key, nodes []*redisserver.Server) *pglock.Lock {
	t.Helper()
	var held *pglock.Lock
	testenv.WaitUntil(t, "all nodes have the lock", func() bool {
		held = lock(t, l, key)
		for range 10 { // an answer may arrive after those that decided
			if holdEverywhere(t, nodes, held) {
				return true
			}
		}
		unlock(t, held)
		return false
	})
	return held
}

func holdEverywhere(t *testing.T, nodes []*redisserver.Server, held *pglock.Lock) bool {
	t.Helper()
	for _, node := range nodes {
		if testenv.AskRedis(t, node, "GET", "pglock:"+held.Key().String()) != held.Token() {
			return false
		}
	}
	return true
}

// TestFaultsRenewalsDoNotNeedTheConnectionsOfTheApplication: the application's only connection is busy for longer than the
// lease.
func TestFaultsRenewalsDoNotNeedTheConnectionsOfTheApplication(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	server := testenv.NewRedis(t)
	for kind, client := range map[string]redis.UniversalClient{
		"one server": closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1})),
		"Cluster":    closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, PoolSize: 1})),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := open(t, []redis.UniversalClient{client}, nil, pglock.WithLease(short))
			held := lock(t, l, pglock.NewKey("k"))
			client.BLPop(t.Context(), 3*short, "pglock:k:nothing") // whether in the slot of another master or not, it occupies a connection
			if err := held.Err(); err != nil {
				t.Errorf("after the application kept its connection busy: %v", err)
			}
			unlock(t, held)
		})
	}
}

// TestFaultsCancelIsFollowedWhenTheServerIsFrozen: calls return when their context ends, and not when the server answers or
// its time is over, which would take an hour here.
func TestFaultsCancelIsFollowedWhenTheServerIsFrozen(t *testing.T) {
	server := testenv.NewRedis(t)
	client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Hour}))
	l := open(t, []redis.UniversalClient{client}, []redisfallback.Option{redisfallback.WithNodeTimeout(time.Hour)}, pglock.WithLease(9*time.Hour))
	held := lock(t, l, pglock.NewKey("k"))
	unlock(t, lock(t, l, pglock.NewKey("connects")))
	for name, call := range map[string]func(context.Context) error{
		"TryLock": func(ctx context.Context) error {
			_, err := l.TryLock(ctx, pglock.NewKey("new"))
			return err
		},
		"Lock": func(ctx context.Context) error {
			_, err := l.Lock(ctx, pglock.NewKey("newer"))
			return err
		},
		"Verify": held.Verify,
		"Ping":   l.Ping,
	} {
		must.Succeed(t, server.Pause())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		time.Sleep(100 * time.Millisecond) // it is running, or will find that its context has ended
		cancel()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s of a frozen server succeeded", name)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s did not return at the end of its context", name)
		}
		must.Succeed(t, server.Resume())
	}
	testenv.WaitUntil(t, "nothing is left but the lock that is held", func() bool { return testenv.AskRedis(t, server, "DBSIZE") == "1" })
	unlock(t, held)
}
