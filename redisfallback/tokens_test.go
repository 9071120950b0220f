package redisfallback_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// TestTokensThatAreEqualBelongToDifferentHolders: WithToken is the caller's choice, and two may choose the same.
func TestTokensThatAreEqualBelongToDifferentHolders(t *testing.T) {
	t.Parallel()
	const lease = 3 * short
	one, cluster, redlock := testenv.NewRedis(t), testenv.NewRedisCluster(t, 3), servers(t, 3)
	for kind, clients := range map[string]func() []redis.UniversalClient{
		"one server": func() []redis.UniversalClient { return newClients(t, []*redisserver.Server{one}) },
		"Cluster":    func() []redis.UniversalClient { return []redis.UniversalClient{newCluster(t, cluster)} },
		"Redlock":    func() []redis.UniversalClient { return newClients(t, redlock) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			first, other := open(t, clients(), nodeTimeout, pglock.WithLease(lease)), open(t, clients(), nodeTimeout, pglock.WithLease(lease))
			key, token := pglock.NewKey("k"), pglock.WithToken("the same")
			held := lock(t, first, key, token)
			if _, err := other.TryLock(t.Context(), key, token); !errors.Is(err, pglock.ErrNotAcquired) {
				t.Fatalf("TryLock with the holder's token: %v", err)
			}
			if _, err := other.TryLockAll(t.Context(), []pglock.Key{key, pglock.NewKey("b")}, token); !errors.Is(err,
				pglock.ErrNotAcquired) {
				t.Fatalf("TryLockAll with the holder's token: %v", err)
			}
			if _, err := other.Lock(t.Context(), key, token, pglock.MaxWait(short)); !errors.Is(err, pglock.ErrNotAcquired) {
				t.Fatalf("Lock with the holder's token: %v", err)
			}
			if err := held.Verify(t.Context()); err != nil {
				t.Errorf("the waiter that gave up has released the holder's lock: %v", err)
			}
			got := lockLater(t, other, key, token)
			testenv.WaitUntil(t, "the other waits", func() bool { return other.Stats().Waiting == 1 })
			unlock(t, held)
			next := <-got
			time.Sleep(lease + lease/2) // longer than the lease: it is renewed
			if err := next.Verify(t.Context()); err != nil {
				t.Errorf("the next lock with the same token: %v", err)
			}
			if kind == "one server" {
				if _, err := next.Fence(t.Context()); err != nil {
					t.Errorf("Fence: %v", err)
				}
			}
			unlock(t, next)
			both, err := other.LockAll(t.Context(), []pglock.Key{key, pglock.NewKey("b")}, token)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease + lease/2)
			unlock(t, both)
			if kind != "one server" {
				return
			}
			if keys := testenv.AskRedis(t, one, "DBSIZE"); keys != "1" { // the fence
				t.Errorf("%s keys are left", keys)
			}
		})
	}
}

// TestTokenOfTheNextHolderIsNotRenewedByTheOneBefore: the first holder's lock was deleted, and the next holder has the
// same token.
func TestTokenOfTheNextHolderIsNotRenewedByTheOneBefore(t *testing.T) {
	s := newPeers(t, pglock.WithLease(short))
	token := pglock.WithToken("the same")
	held := lock(t, s.first, s.key, token)
	testenv.AskRedis(t, s.server, "DEL", "pglock:k")
	next := lock(t, s.other, s.key, token)
	wantLost(t, held, pglock.LostGone)
	if err := next.Verify(t.Context()); err != nil {
		t.Errorf("the next holder's lock has ended with the first one's: %v", err)
	}
	unlock(t, next)
}

// TestTokenFullMemoryEndsNoLocks: renewals, releases and offers need no memory.
func TestTokenFullMemoryEndsNoLocks(t *testing.T) {
	t.Parallel()
	const lease = 2 * short
	s := newPeers(t, pglock.WithLease(lease))
	kinds := map[string][]pglock.LockOption{
		"shared": {pglock.Shared()}, "exclusive": nil, "with a token": {pglock.WithToken("mine")},
	}
	held := map[string]*pglock.Lock{}
	waiting := make(chan *pglock.Lock)
	for kind, opts := range kinds {
		held[kind] = lock(t, s.first, pglock.NewKey(kind), opts...)
		go func() {
			next, err := s.other.Lock(context.Background(), pglock.NewKey(kind), opts...)
			if err != nil {
				t.Error(err)
			}
			waiting <- next
		}()
	}
	unlock(t, <-waiting) // the other shared one
	testenv.WaitUntil(t, "the others wait", func() bool { return inLine(t, s.admin) == 2 })
	testenv.AskRedis(t, s.server, "SET", "ballast", strings.Repeat("x", 10<<20))
	testenv.AskRedis(t, s.server, "CONFIG", "SET", "maxmemory", "5mb")
	if _, err := s.first.TryLock(t.Context(), pglock.NewKey("new")); !errors.Is(err, pglock.ErrUnavailable) ||
		!strings.Contains(err.Error(), "memory") {
		t.Errorf("TryLock with full memory: %v", err)
	}
	time.Sleep(2 * lease)
	for kind, l := range held {
		if err := l.Verify(t.Context()); err != nil {
			t.Errorf("%s: after two leases with full memory: %v", kind, err)
		}
		unlock(t, l)
	}
	for range 2 {
		if next := <-waiting; next != nil {
			unlock(t, next)
		}
	}
}

// TestTokenNamesAreNotTheKeysOfThisPackage: without a prefix a name could be one of the package's own keys.
func TestTokenNamesAreNotTheKeysOfThisPackage(t *testing.T) {
	s := newPeers(t)
	l := open(t, []redis.UniversalClient{s.admin}, []redisfallback.Option{redisfallback.WithKeyPrefix("")})
	shared := lock(t, l, pglock.NewKey("victim"), pglock.Shared())
	keys, err := s.admin.Keys(t.Context(), "*victim").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("the keys of the lock are %q, %v", keys, err)
	}
	unlock(t, shared)
	for _, key := range keys {
		if key == "victim" {
			continue
		}
		attack := pglock.NewKey(strings.Replace(key, "shared", "writers", 1))
		_, lockErr := l.TryLock(t.Context(), attack)
		_, holdersErr := l.Holders(t.Context(), attack)
		for call, err := range map[string]error{"TryLock": lockErr, "Holders": holdersErr} {
			if !errors.Is(err, pglock.ErrInvalidKey) {
				t.Errorf("%s of %v: %v", call, attack, err)
			}
		}
	}
	unlock(t, lock(t, l, pglock.NewKey("victim")))
	for _, name := range []string{"{x", "a{b}:pglock:c", "{a}:pglock", "}:pglock:", "pglock:shared"} {
		unlock(t, lock(t, l, pglock.NewKey(name)))
	}
}
