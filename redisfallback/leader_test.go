package redisfallback_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/suites/leadertest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestLeaderPassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			clients := m.clients(t)
			leadertest.Exercise(t, shortLease(clients), func(t testing.TB, key pglock.Key) {
				forget(t, clients, key)
			})
		})
	}
}

// modes are the ways to deploy Redis.
var modes = []struct {
	name    string
	clients func(testing.TB) []redis.UniversalClient
}{
	{"OneServer", func(t testing.TB) []redis.UniversalClient {
		return []redis.UniversalClient{newClient(t, testenv.RedisURL(t))}
	}},
	{"Sentinel", func(t testing.TB) []redis.UniversalClient {
		return []redis.UniversalClient{newFollower(t, testenv.NewRedisSentinel(t))}
	}},
	{"Cluster", func(t testing.TB) []redis.UniversalClient {
		return []redis.UniversalClient{newCluster(t, testenv.NewRedisCluster(t, 3))}
	}},
	{"Redlock", func(t testing.TB) []redis.UniversalClient { return newClients(t, servers(t, 3)) }},
}

// shortLease opens Lockers that soon learn of a loss.
func shortLease(clients []redis.UniversalClient) func(testing.TB, ...pglock.Option) *pglock.Locker {
	return func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return open(t, clients, nodeTimeout, append([]pglock.Option{pglock.WithLease(2 * time.Second)}, opts...)...)
	}
}

// forget makes the servers forget a lock, as a restart without persistence does.
func forget(t testing.TB, clients []redis.UniversalClient, key pglock.Key) {
	t.Helper()
	for _, client := range clients {
		if err := client.Del(t.Context(), redisfallback.DefaultKeyPrefix+key.String()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
