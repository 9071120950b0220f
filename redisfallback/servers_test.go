package redisfallback_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// replicaOf starts a replica that follows its primary.
func replicaOf(t *testing.T, primary *redisserver.Server, directives ...string) *redisserver.Server {
	t.Helper()
	testenv.AskRedis(t, primary, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := testenv.NewRedis(t, append(directives, "replicaof 127.0.0.1 "+strconv.Itoa(primary.Port()))...)
	testenv.WaitUntil(t, "the replica follows", func() bool {
		return strings.Contains(testenv.AskRedis(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	return replica
}

func TestServerThatIsAReplicaIsAStandby(t *testing.T) {
	t.Parallel()
	primary := testenv.NewRedis(t)
	for kind, replica := range map[string]*redisserver.Server{
		"read-only": replicaOf(t, primary),
		"writable":  replicaOf(t, primary, "replica-read-only no"),
	} {
		l := open(t, newClients(t, []*redisserver.Server{replica}), nil)
		_, lockErr := l.Lock(t.Context(), pglock.NewKey("k"))
		for call, err := range map[string]error{"Lock": lockErr, "Ping": l.Ping(t.Context())} {
			if !errors.Is(err, pglock.ErrStandby) || errors.Is(err, pglock.ErrUnavailable) ||
				!strings.Contains(fmt.Sprint(err), primary.Addr()) {
				t.Errorf("%s of a %s replica: %v", call, kind, err)
			}
		}
		testenv.AskRedis(t, replica, "REPLICAOF", "NO", "ONE")
		unlock(t, lock(t, l, pglock.NewKey("k"))) // it is a primary now
		if err := l.Ping(t.Context()); err != nil {
			t.Errorf("Ping of a promoted replica: %v", err)
		}
	}
}

// TestServerThatBecomesAReplicaIsAStandby: the Locker has seen it as a primary before.
func TestServerThatBecomesAReplicaIsAStandby(t *testing.T) {
	s := newPeers(t)
	unlock(t, lock(t, s.first, s.key))
	testenv.AskRedis(t, s.server, "REPLICAOF", "127.0.0.1", strconv.Itoa(testenv.NewRedis(t).Port()))
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		if _, err := s.first.TryLock(t.Context(), s.key, opts...); !errors.Is(err, pglock.ErrStandby) {
			t.Errorf("TryLock on a new replica: %v", err)
		}
	}
}

// TestServersOfARedlockAreDistinct: a server that has several clients has one vote all the same.
func TestServersOfARedlockAreDistinct(t *testing.T) {
	t.Parallel()
	one, other := testenv.NewRedis(t), testenv.NewRedis(t)
	localhost := "localhost:" + strconv.Itoa(one.Port())
	replica := replicaOf(t, one)
	for what, c := range map[string]struct {
		clients []redis.UniversalClient
		want    error
		named   []string
	}{
		"two names of one server": {
			[]redis.UniversalClient{newClient(t, one.URL()), newClient(t, "redis://"+localhost), newClient(t, other.URL())},
			pglock.ErrUnsupported, []string{one.Addr(), localhost},
		},
		"a primary and its replica": {
			[]redis.UniversalClient{newClient(t, one.URL()), newClient(t, other.URL()), newClient(t, replica.URL())},
			pglock.ErrStandby, []string{one.Addr(), replica.Addr()},
		},
	} {
		err := open(t, c.clients, nil).Ping(t.Context())
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		for _, name := range c.named {
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s: the error does not name %s: %v", what, name, err)
			}
		}
	}
	sentinel := testenv.NewRedisSentinel(t)
	followers := make([]redis.UniversalClient, 3)
	for i := range followers {
		followers[i] = closing(t, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: sentinel.Name, SentinelAddrs: []string{sentinel.Sentinels[i].Addr()},
		}))
	}
	if _, err := open(t, followers, nil).Lock(t.Context(), pglock.NewKey("k")); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("one primary of Sentinel thrice: %v", err)
	}
}

func TestServerWithReplicasIsWarnedOfASplitBrain(t *testing.T) {
	t.Parallel()
	for _, min := range []string{"0", "1"} {
		primary := testenv.NewRedis(t, "min-replicas-to-write "+min)
		replicaOf(t, primary)
		testenv.WaitUntil(t, "the primary knows its replica", func() bool {
			return strings.Contains(testenv.AskRedis(t, primary, "INFO", "replication"), "state=online")
		})
		var log syncBuilder
		l := open(t, newClients(t, []*redisserver.Server{primary}), nil,
			pglock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		unlock(t, lock(t, l, pglock.NewKey("k")))
		if warned := strings.Contains(log.String(), "min-replicas-to-write"); warned != (min == "0") {
			t.Errorf("min-replicas-to-write %s: logged %q", min, log.String())
		}
	}
}
