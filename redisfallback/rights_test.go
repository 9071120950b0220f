package redisfallback_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// documentedRights reads the ACL rules from the package's documentation: the one for every server, and the one for a
// Cluster.
func documentedRights(t *testing.T) (rules [][]string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
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
	server.Must(t, documentedRights(t)[0]...)
	client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "locks", Password: "secret"}))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
	if err := client.Get(t.Context(), "else").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("the user may read other keys: %v", err)
	}
}

func TestRightsTheDocumentedRightsAreEnoughOnACluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		for _, rule := range documentedRights(t) {
			node.Must(t, rule...)
		}
		addrs = append(addrs, node.Addr())
	}
	client := closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Username: "locks", Password: "secret"}))
	locktest.Exercise(t, opener([]redis.UniversalClient{client}))
	for _, node := range nodes {
		if denied := node.Must(t, "INFO", "errorstats"); strings.Contains(denied, "NOPERM") {
			t.Errorf("a command was not permitted: %s", denied)
		}
	}
}

func TestRightsAMissingRightIsNamedAndNoPasswordShown(t *testing.T) {
	server := testenv.NewRedis(t)
	server.Must(t, "ACL", "SETUSER", "locks", "on", ">secret", "~pglock:*", "+ping")
	for name, opts := range map[string]*redis.Options{
		"no rights":      {Addr: server.Addr(), Username: "locks", Password: "secret"},
		"wrong password": {Addr: server.Addr(), Username: "locks", Password: "secret-but-wrong"},
	} {
		l := open(t, []redis.UniversalClient{closing(t, redis.NewClient(opts))}, nil)
		_, err := l.TryLock(t.Context(), pglock.NewKey("k"))
		if !errors.Is(err, pglock.ErrUnavailable) || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRightsAKeyThatIsNoLockIsSaidToBeOne(t *testing.T) {
	s := newPeers(t)
	s.server.Must(t, "RPUSH", "pglock:k", "x")
	if _, err := s.first.Lock(t.Context(), s.key); err == nil || !strings.Contains(err.Error(), "not a lock") {
		t.Errorf("Lock of a list: %v", err)
	}
}

func TestRightsAServerThatMayEvictLocksIsWarnedOf(t *testing.T) {
	for policy, want := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		server := testenv.NewRedis(t, "maxmemory 100mb", "maxmemory-policy "+policy)
		var log syncBuilder
		l := open(t, newClients(t, []*testenv.RedisServer{server}), nil,
			pglock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := l.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
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
	if _, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithNodeTimeout(0)); err == nil {
		t.Error("WithNodeTimeout(0) is no error")
	}
	if _, err := redisfallback.NewBackend([]redis.UniversalClient{client}, nil); err == nil {
		t.Error("a nil option is no error")
	}
	if _, err := redisfallback.New(client, pglock.WithNames()); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("WithNames: %v", err)
	}
	if _, err := redisfallback.New(client, pglock.AllowPooler()); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("AllowPooler: %v", err)
	}
	if _, err := redisfallback.NewRedlock([]redis.UniversalClient{client}); err == nil {
		t.Error("NewRedlock of one client is no error")
	}
}
