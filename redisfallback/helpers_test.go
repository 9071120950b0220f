package redisfallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// newClient returns a client of the server at a URL, closed when the test ends.
func newClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	must.Succeed(t, err)
	return closing(t, redis.NewClient(opts))
}

func closing[C redis.UniversalClient](t testing.TB, client C) C {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// newClients returns a client for each server.
func newClients(t testing.TB, servers []*redisserver.Server) []redis.UniversalClient {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, server := range servers {
		clients[i] = newClient(t, server.URL())
	}
	return clients
}

// newCluster returns a client of a Redis Cluster.
func newCluster(t testing.TB, servers []*redisserver.Server) *redis.ClusterClient {
	t.Helper()
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs}))
}

// servers starts n independent servers.
func servers(t testing.TB, n int) []*redisserver.Server {
	t.Helper()
	all := make([]*redisserver.Server, n)
	for i := range all {
		all[i] = testenv.NewRedis(t)
	}
	return all
}

// open returns a Locker, closed when the test ends at the latest.
func open(
	t testing.TB, clients []redis.UniversalClient, options []redisfallback.Option, opts ...pglock.Option,
) *pglock.Locker {
	t.Helper()
	b, err := redisfallback.NewBackend(clients, options...)
	must.Succeed(t, err)
	l, err := pglock.NewWithBackend(b, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a test that failed may still hold locks
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}
