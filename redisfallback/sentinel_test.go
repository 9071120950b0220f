package redisfallback_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// newFollower returns a client of the primary that the Sentinels name.
func newFollower(t testing.TB, s *testenv.Sentinel) *redis.Client {
	t.Helper()
	opts := &redis.FailoverOptions{MasterName: s.Name}
	for _, sentinel := range s.Sentinels {
		opts.SentinelAddrs = append(opts.SentinelAddrs, sentinel.Addr())
	}
	return closing(t, redis.NewFailoverClient(opts))
}

// overSentinel opens a Locker with a separate client.
func overSentinel(t *testing.T, s *testenv.Sentinel) *pglock.Locker {
	t.Helper()
	return open(t, []redis.UniversalClient{newFollower(t, s)}, nil)
}

// awaitFailover waits until the replica is promoted. At that moment Sentinel ends the connections of all its clients.
func awaitFailover(t *testing.T, s *testenv.Sentinel) {
	t.Helper()
	testenv.WaitUntil(t, "the replica is promoted", func() bool {
		info, err := s.Replica.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "role:master")
	})
}

func TestSentinelALockSurvivesAFailoverToAReplicaThatHasIt(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedisSentinel(t)
	first, other := overSentinel(t, s), overSentinel(t, s)
	key := pglock.NewKey("k")
	held := lock(t, first, key)
	testenv.WaitUntil(t, "the replica has the lock", func() bool {
		return testenv.AskRedis(t, s.Replica, "GET", "pglock:k") == held.Token()
	})
	waiting := make(chan *pglock.Lock, 1)
	go func() { waiting <- lockWhenAvailable(t, other, key) }()
	testenv.WaitUntil(t, "the other waits", func() bool { return other.Stats().Waiting == 1 })
	must.Succeed(t, s.Primary.Kill())
	awaitFailover(t, s)
	testenv.WaitUntil(t, "the client has found the new primary", func() bool { return held.Verify(t.Context()) == nil })
	select {
	case <-waiting:
		t.Error("the lock was granted again although the replica had it")
	default:
	}
	unlock(t, held)
	unlock(t, <-waiting)
}

// TestSentinelALockThatAFailoverLosesIsToldAtTheNextRenewal: the replica has not received the lock, so it grants it again. The
// documentation says that this can happen.
func TestSentinelALockThatAFailoverLosesIsToldAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedisSentinel(t)
	first, other := overSentinel(t, s), overSentinel(t, s)
	key := pglock.NewKey("k")
	must.Succeed(t, first.Ping(t.Context()))
	must.Succeed(t, s.Replica.Pause()) // so that it does not connect again
	testenv.AskRedis(t, s.Primary, "CLIENT", "KILL", "TYPE", "replica")
	held := lock(t, first, key)
	must.Succeed(t, s.Primary.Kill())
	must.Succeed(t, s.Replica.Resume())
	awaitFailover(t, s)
	next := lockWhenAvailable(t, other, key)
	wantLost(t, held, pglock.LostGone)
	unlock(t, next)
}
