package testenv

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// RedisVariable is the environment variable with the URL of a Redis for the tests.
const RedisVariable = "PGLOCK_TEST_REDIS_URL"

// RedisURL returns the URL of a Redis that all tests of a binary share, so each must use its own keys.
func RedisURL(t testing.TB) string {
	t.Helper()
	url, err := sharedRedis.url()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// sharedRedis is the server that all tests of a binary share.
var sharedRedis sharedRedisServer

type sharedRedisServer struct {
	once   sync.Once
	server *redisserver.Server
	err    error
}

func (s *sharedRedisServer) url() (string, error) {
	if external := os.Getenv(RedisVariable); external != "" {
		return external, nil
	}
	s.once.Do(func() { s.server, s.err = redisserver.Start() })
	if s.err != nil {
		return "", fmt.Errorf("%w\n(or set %s to the URL of a server)", s.err, RedisVariable)
	}
	return s.server.URL(), nil
}

func (s *sharedRedisServer) stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}

// RedisServer is a test's own Redis. Its errors fail the test.
type RedisServer struct{ *redisserver.Server }

// NewRedis starts a Redis for the test, optionally with additional directives of redis.conf, such as "maxmemory 1mb".
// It is stopped when the test ends.
func NewRedis(t testing.TB, directives ...string) *RedisServer {
	t.Helper()
	return stopping(t)(redisserver.Start(directives...))
}

// stopping takes the results of a function that starts a server.
func stopping(t testing.TB) func(*redisserver.Server, error) *RedisServer {
	t.Helper()
	return func(server *redisserver.Server, err error) *RedisServer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Stop(); err != nil {
				t.Errorf("stop Redis: %v", err)
			}
		})
		return &RedisServer{server}
	}
}

// NewRedisCluster starts a Redis Cluster of masters that share the slots equally, optionally with additional
// directives.
func NewRedisCluster(t testing.TB, masters int, directives ...string) []*RedisServer {
	t.Helper()
	servers := make([]*RedisServer, masters)
	for i := range servers {
		servers[i] = NewRedis(t, append([]string{
			"cluster-enabled yes", "cluster-node-timeout 2000", "cluster-require-full-coverage yes",
		}, directives...)...)
	}
	plain := make([]*redisserver.Server, masters)
	for i, server := range servers {
		plain[i] = server.Server
	}
	must.Succeed(t, redisserver.JoinCluster(plain...))
	WaitUntil(t, "the cluster is ready", func() bool {
		ready, err := redisserver.ClusterReady(plain...)
		must.Succeed(t, err)
		return ready
	})
	return servers
}

// Sentinel is a primary with one replica, and three Sentinels that watch over them.
type Sentinel struct {
	Name             string // the Sentinels' name of the primary
	Primary, Replica *RedisServer
	Sentinels        []*RedisServer
}

// NewRedisSentinel starts a primary with a replica and three Sentinels. Two of these must agree to promote the replica
// after the primary has not answered for half a second.
func NewRedisSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Name: "locks", Primary: NewRedis(t, "repl-diskless-sync-delay 0")}
	port := strconv.Itoa(s.Primary.Port())
	s.Replica = NewRedis(t, "replicaof 127.0.0.1 "+port)
	WaitUntil(t, "the replica follows", func() bool {
		return strings.Contains(s.Replica.Must(t, "INFO", "replication"), "master_link_status:up")
	})
	for range 3 {
		s.Sentinels = append(s.Sentinels, stopping(t)(redisserver.StartSentinel(
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", s.Name, port),
			fmt.Sprintf("sentinel down-after-milliseconds %s 500", s.Name),
			fmt.Sprintf("sentinel failover-timeout %s 3000", s.Name))))
	}
	WaitUntil(t, "the Sentinels know each other and the replica", func() bool {
		return !slices.ContainsFunc(s.Sentinels, func(sentinel *RedisServer) bool {
			return !strings.Contains(sentinel.Must(t, "INFO", "sentinel"), "slaves=1,sentinels=3")
		})
	})
	return s
}

// Kill ends the server at once, with all its data.
func (s *RedisServer) Kill(t testing.TB) { t.Helper(); must.Succeed(t, s.Server.Kill()) }

// Start restarts a killed server, empty, on the same port.
func (s *RedisServer) Start(t testing.TB) { t.Helper(); must.Succeed(t, s.Up(context.Background())) }

// Pause freezes the server with SIGSTOP: connections stay open, but get no answers.
func (s *RedisServer) Pause(t testing.TB) { t.Helper(); must.Succeed(t, s.Server.Pause()) }

// Resume ends a [RedisServer.Pause].
func (s *RedisServer) Resume(t testing.TB) { t.Helper(); must.Succeed(t, s.Server.Resume()) }

// Must is Do that fails the test on an error.
func (s *RedisServer) Must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("Redis command %s: %v", strings.Join(args, " "), err)
	}
	return reply
}
