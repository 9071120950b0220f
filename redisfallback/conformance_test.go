package redisfallback_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestSuiteOneServerPassesTheSuite(t *testing.T) {
	t.Parallel()
	client := newClient(t, testenv.RedisURL(t))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
}

func TestLongSuiteAClusterPassesTheSuite(t *testing.T) {
	t.Parallel()
	client := newCluster(t, testenv.NewRedisCluster(t, 3))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
}

func TestLongSuiteRedlockPassesTheSuite(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, opener(newClients(t, servers(t, 5))))
}

func opener(clients []redis.UniversalClient) locktest.Opener {
	return func(t testing.TB, opts ...pglock.Option) *pglock.Locker {
		return open(t, clients, nil, opts...)
	}
}
