package histories_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
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

func newClient(server *testenv.RedisServer) redis.UniversalClient {
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
			server.Pause(t)
			pause(ctx, d)
			server.Resume(t)
			pause(ctx, 300*time.Millisecond)
		}
	})
}

// The slots of all keys move back and forth between two of a Cluster's three masters.
func TestLongRedisLocksAreLinearizableWhileTheirSlotsMigrate(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	r := &run{T: t, history: histories.New(), looks: true, rest: 10 * time.Millisecond, stay: 2 * lease, rounds: 3}
	for range 3 {
		r.openRedis(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr()}}))
	}
	var slots []string
	for _, key := range keys {
		slots = append(slots, nodes[0].Must(t, "CLUSTER", "KEYSLOT", "pglock:"+key.String()))
	}
	r.work(func(ctx context.Context) {
		for _, slot := range slots {
			migrate(t, nodes, slot)
			pause(ctx, 50*time.Millisecond)
		}
	})
}

// migrate moves a slot from its node to the next one.
func migrate(t *testing.T, nodes []*testenv.RedisServer, slot string) {
	t.Helper()
	number, err := strconv.Atoi(slot)
	if err != nil {
		t.Fatal(err)
	}
	owner := 0
	for i, node := range nodes {
		if owns(t, node, number) {
			owner = i
		}
	}
	from, to := nodes[owner], nodes[(owner+1)%len(nodes)]
	id := func(s *testenv.RedisServer) string { return s.Must(t, "CLUSTER", "MYID") }
	to.Must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	from.Must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	admin := newClient(from)
	defer func() {
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		names, err := admin.ClusterGetKeysInSlot(context.Background(), number, 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			break
		}
		args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000", "KEYS"}
		_, _ = from.Do(append(args, names...)...) // some may have moved; the others are tried again
	}
	for i := range nodes {
		nodes[(owner+1+i)%len(nodes)].Must(t, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
}

// owns reports whether a node has a slot.
func owns(t *testing.T, node *testenv.RedisServer, slot int) bool {
	t.Helper()
	for line := range strings.Lines(node.Must(t, "CLUSTER", "NODES")) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, part := range fields[8:] {
			low, high, many := strings.Cut(part, "-")
			first, err := strconv.Atoi(low)
			if err != nil {
				continue // a slot that migrates
			}
			last := first
			if many {
				if last, err = strconv.Atoi(high); err != nil {
					continue
				}
			}
			if first <= slot && slot <= last {
				return true
			}
		}
	}
	return false
}
