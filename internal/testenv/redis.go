package testenv

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// RedisVariable is the environment variable with the URL of a Redis for the tests.
const RedisVariable = "PGLOCK_TEST_REDIS_URL"

// RedisURL returns the URL of the Redis that [RedisVariable] names, which tests share, so each must use its own keys. If it
// names none, the test gets one of its own.
func RedisURL(t testing.TB) string {
	t.Helper()
	if external := os.Getenv(RedisVariable); external != "" {
		return external
	}
	return NewRedis(t).URL()
}

// NewRedis starts a Redis for the test, optionally with additional directives of redis.conf, such as "maxmemory 1mb".
// It is stopped when the test ends.
func NewRedis(t testing.TB, directives ...string) *redisserver.Server {
	t.Helper()
	return stopping(t)(redisserver.Start(directives...))
}

// stopping takes the results of a function that starts a server.
func stopping(t testing.TB) func(*redisserver.Server, error) *redisserver.Server {
	t.Helper()
	return func(server *redisserver.Server, err error) *redisserver.Server {
		t.Helper()
		must.Succeed(t, err)
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Errorf("stop Redis: %v", err)
			}
		})
		return server
	}
}

// NewRedisCluster starts a Redis Cluster of masters that share the slots equally, optionally with additional
// directives.
func NewRedisCluster(t testing.TB, masters int, directives ...string) []*redisserver.Server {
	t.Helper()
	servers := make([]*redisserver.Server, masters)
	for i := range servers {
		servers[i] = NewRedis(t, append([]string{
			"cluster-enabled yes", "cluster-node-timeout 2000", "cluster-require-full-coverage yes",
		}, directives...)...)
	}
	must.Succeed(t, redisserver.JoinCluster(servers...))
	WaitUntil(t, "the cluster is ready", func() bool {
		ready, err := redisserver.ClusterReady(servers...)
		must.Succeed(t, err)
		return ready
	})
	return servers
}

// Sentinel is a primary with one replica, and three Sentinels that watch over them.
type Sentinel struct {
	Name             string // the Sentinels' name of the primary
	Primary, Replica *redisserver.Server
	Sentinels        []*redisserver.Server
}

// NewRedisSentinel starts a primary with a replica and three Sentinels. Two of these must agree to promote the replica
// after the primary has not answered for half a second.
func NewRedisSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Name: "locks", Primary: NewRedis(t, "repl-diskless-sync-delay 0")}
	port := strconv.Itoa(s.Primary.Port())
	s.Replica = NewRedis(t, "replicaof 127.0.0.1 "+port)
	WaitUntil(t, "the replica follows", func() bool {
		return strings.Contains(AskRedis(t, s.Replica, "INFO", "replication"), "master_link_status:up")
	})
	for range 3 {
		s.Sentinels = append(s.Sentinels, stopping(t)(redisserver.StartSentinel(
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", s.Name, port),
			fmt.Sprintf("sentinel down-after-milliseconds %s 500", s.Name),
			fmt.Sprintf("sentinel failover-timeout %s 3000", s.Name))))
	}
	WaitUntil(t, "the Sentinels know each other and the replica", func() bool {
		return !slices.ContainsFunc(s.Sentinels, func(sentinel *redisserver.Server) bool {
			return !strings.Contains(AskRedis(t, sentinel, "INFO", "sentinel"), "slaves=1,sentinels=3")
		})
	})
	return s
}

// AskRedis sends one command. An error fails the test.
func AskRedis(t testing.TB, server *redisserver.Server, args ...string) string {
	t.Helper()
	reply, err := server.Do(args...)
	if err != nil {
		t.Fatalf("Redis command %s: %v", strings.Join(args, " "), err)
	}
	return reply
}
