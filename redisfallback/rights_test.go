package redisfallback_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// documentedRights reads the ACL rules from the package's documentation: the one for every server, and the one for a
// Cluster.
func documentedRights(t *testing.T) (rules [][]string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	must.Succeed(t, err)
	for line := range strings.Lines(string(text)) {
		if _, rule, ok := strings.Cut(line, "//\tACL SETUSER locks "); ok {
			rule = strings.Replace(rule, ">PASSWORD", ">secret", 1)
			rules = append(rules, append([]string{"ACL", "SETUSER", "locks"}, strings.Fields(rule)...))
		}
	}
	if len(rules) != 2 {
		t.Fatalf("doc.go has the ACL rules %q, want two", rules)
	}
	return rules
}

func TestRightsTheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	testenv.AskRedis(t, server, documentedRights(t)[0]...)
	client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "locks", Password: "secret"}))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
	if err := client.Get(t.Context(), "else").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("the user may read other keys: %v", err)
	}
}

func TestLongRightsTheDocumentedRightsAreEnoughOnACluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		for _, rule := range documentedRights(t) {
			testenv.AskRedis(t, node, rule...)
		}
		addrs = append(addrs, node.Addr())
	}
	client := closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Username: "locks", Password: "secret"}))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
	for _, node := range nodes {
		if denied := testenv.AskRedis(t, node, "INFO", "errorstats"); strings.Contains(denied, "NOPERM") {
			t.Errorf("a command was not permitted: %s", denied)
		}
	}
}

func TestRightsAClientThatIsDeniedAccessIsToldSoAndNoPasswordShown(t *testing.T) {
	t.Parallel()
	nodes := servers(t, 3)
	for _, node := range nodes {
		testenv.AskRedis(t, node, "ACL", "SETUSER", "locks", "on", ">secret", "~pglock:*", "+ping")
		testenv.AskRedis(t, node, "ACL", "SETUSER", "default", "resetpass", ">secret")
	}
	for name, opts := range map[string]redis.Options{
		"no rights":      {Username: "locks", Password: "secret"},
		"wrong password": {Username: "locks", Password: "secret-but-wrong"},
		"no password":    {},
	} {
		t.Run(name, func(t *testing.T) {
			var clients []redis.UniversalClient
			for _, node := range nodes {
				opts.Addr = node.Addr()
				clients = append(clients, closing(t, redis.NewClient(&opts)))
			}
			wantDenied := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, pglock.ErrDenied) || errors.Is(err, pglock.ErrUnavailable) ||
					strings.Contains(err.Error(), "secret") || !slices.ContainsFunc(nodes, func(node *redisserver.Server) bool {
					return strings.Contains(err.Error(), node.Addr()) // two of three may have decided
				}) {
					t.Errorf("%s: %v", what, err)
				}
			}
			l, redlock := open(t, clients[:1], nil), open(t, clients, nil)
			_, err := l.Lock(t.Context(), pglock.NewKey("k"))
			wantDenied("Lock", err)
			_, err = redlock.TryLock(t.Context(), pglock.NewKey("k"))
			wantDenied("TryLock on a majority", err)
			_, err = newLimiter(t, clients[0]).Allow(t.Context(), "k", ratelimit.PerHour(1))
			wantDenied("Allow", err)
		})
	}
}

// After the password has changed, the server refuses a connection before it gets the commands that were to be sent on it.
func TestRightsAConnectionThatIsDeniedGrantsNothing(t *testing.T) {
	t.Parallel()
	cluster := testenv.NewRedisCluster(t, 3)
	for name, c := range map[string]struct {
		nodes  []*redisserver.Server
		client func(addr string) redis.UniversalClient
	}{
		"one server": {servers(t, 1), func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, Username: "locks", Password: "secret"})
		}},
		"Cluster": {cluster, func(addr string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, Username: "locks", Password: "secret"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, node := range c.nodes {
				testenv.AskRedis(t, node, "ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all")
			}
			client := closing(t, c.client(c.nodes[0].Addr()))
			l, limiter := open(t, []redis.UniversalClient{client}, nil), newLimiter(t, client)
			unlock(t, lock(t, l, pglock.NewKey("k")))
			for _, node := range c.nodes {
				testenv.AskRedis(t, node, "ACL", "SETUSER", "locks", "resetpass", ">changed")
				testenv.AskRedis(t, node, "CLIENT", "KILL", "USER", "locks")
			}
			var all sync.WaitGroup
			for i := range 200 {
				key := fmt.Sprint("k", i)
				all.Go(func() {
					if _, err := l.TryLock(t.Context(), pglock.NewKey(key)); err == nil || errors.Is(err, pglock.ErrNotAcquired) {
						t.Errorf("TryLock: %v", err)
					}
				})
				all.Go(func() {
					if d, err := limiter.Allow(t.Context(), key, ratelimit.PerHour(1)); err == nil || errors.Is(err, pglock.ErrNotAcquired) {
						t.Errorf("Allow: %v, %v", d, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A user may have the rights to take a lock but not those to keep or release it.
func TestRightsThatAreNeededLaterAreMissedBeforeTheFirstLock(t *testing.T) {
	server := testenv.NewRedis(t)
	for _, missing := range []string{"-evalsha", "-pexpire", "-del", "-zrem"} {
		testenv.AskRedis(t, server, "ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-eval", "+eval", missing)
		client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "locks", Password: "secret"}))
		l := open(t, []redis.UniversalClient{client}, nil)
		_, lockErr := l.Lock(t.Context(), pglock.NewKey("k"))
		_, tryErr := l.TryLock(t.Context(), pglock.NewKey("k"))
		for call, err := range map[string]error{"Lock": lockErr, "TryLock": tryErr} {
			if !errors.Is(err, pglock.ErrDenied) || !strings.Contains(strings.ToLower(err.Error()), missing[1:]) {
				t.Errorf("%s with %s: %v", call, missing, err)
			}
		}
	}
	if left := testenv.AskRedis(t, server, "DBSIZE"); left != "0" {
		t.Errorf("%s keys are left", left)
	}
}

func TestRightsAKeyThatIsNoLockIsSaidToBeOne(t *testing.T) {
	s := newPeers(t)
	for kind, command := range map[string][]string{"list": {"RPUSH", "pglock:k", "x"}, "hash": {"HSET", "pglock:k", "a", "1"}} {
		testenv.AskRedis(t, s.server, command...)
		_, lockErr := s.first.Lock(t.Context(), s.key)
		_, tryErr := s.first.TryLock(t.Context(), s.key)
		_, sharedErr := s.first.TryLock(t.Context(), s.key, pglock.Shared())
		for call, err := range map[string]error{"Lock": lockErr, "TryLock": tryErr, "shared TryLock": sharedErr} {
			if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), "not a lock") {
				t.Errorf("%s of a %s: %v", call, kind, err)
			}
		}
		testenv.AskRedis(t, s.server, "DEL", "pglock:k")
	}
}

func TestRightsAServerThatMayEvictLocksIsWarnedOf(t *testing.T) {
	for policy, want := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		server := testenv.NewRedis(t, "maxmemory 100mb", "maxmemory-policy "+policy)
		var log syncBuilder
		l := open(t, newClients(t, []*redisserver.Server{server}), nil,
			pglock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		must.Succeed(t, l.Ping(t.Context()))
		if want {
			testenv.WaitUntil(t, "a warning is logged", func() bool { return strings.Contains(log.String(), policy) })
			continue
		}
		if err := l.Close(t.Context()); err != nil { // waits for the answer
			t.Error(err)
		}
		if text := log.String(); text != "" {
			t.Errorf("%s: logged %s", policy, text)
		}
	}
}

// syncBuilder is a strings.Builder for several goroutines.
type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestRightsMisuseOfTheConstructorsIsAnError(t *testing.T) {
	client := newClient(t, "redis://127.0.0.1:1")
	ring := closing(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))
	for name, clients := range map[string][]redis.UniversalClient{
		"none": nil, "two": {client, newClient(t, "redis://127.0.0.1:2")}, "nil": {nil}, "typed nil": {(*redis.Client)(nil)},
		"the same thrice": {client, client, client}, "a Ring": {ring},
	} {
		if b, err := redisfallback.NewBackend(clients); err == nil || b != nil {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	cluster := func() redis.UniversalClient {
		return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}))
	}
	_, err := redisfallback.NewRedlock([]redis.UniversalClient{client, cluster(), cluster()})
	if !errors.Is(err, pglock.ErrUnsupported) || !strings.Contains(err.Error(), "Cluster 127.0.0.1:1") {
		t.Errorf("NewRedlock of Clusters: %v", err)
	}
	if _, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithNodeTimeout(0)); err == nil {
		t.Error("WithNodeTimeout(0) is no error")
	}
	if _, err := redisfallback.NewBackend([]redis.UniversalClient{client}, nil); err == nil {
		t.Error("a nil option is no error")
	}
	if _, err := redisfallback.New(client, pglock.AllowPooler()); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("AllowPooler: %v", err)
	}
	if _, err := redisfallback.NewRedlock([]redis.UniversalClient{client}); err == nil {
		t.Error("NewRedlock of one client is no error")
	}
}
