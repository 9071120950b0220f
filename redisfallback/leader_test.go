package redisfallback_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/suites/leadertest"
	"github.com/pglock-toolkit/pglock/internal/suites/semaphoretest"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// What leaders and semaphores need of a deployment is what the suite of locks looks at. Here it loses locks.
func TestLeaderPassesTheSuite(t *testing.T) {
	t.Parallel()
	clients := newClients(t, servers(t, 3))
	leadertest.Exercise(t, shortLease(clients), func(t testing.TB, key pglock.Key) { forget(t, clients, key) })
}

func TestSemaphorePassesTheSuite(t *testing.T) {
	t.Parallel()
	clients := newClients(t, servers(t, 3))
	semaphoretest.Exercise(t, shortLease(clients), func(t testing.TB, key pglock.Key) { forget(t, clients, key) })
}

// stores are the deployments that keep the state of schedules and rate limits.
var stores = map[string]func(testing.TB) redis.UniversalClient{
	"one server": func(t testing.TB) redis.UniversalClient { return newClient(t, testenv.RedisURL(t)) },
	"Cluster":    func(t testing.TB) redis.UniversalClient { return newCluster(t, testenv.NewRedisCluster(t, 3)) },
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
		if err := client.Del(t.Context(), "pglock:"+key.String()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
