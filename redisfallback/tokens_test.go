package redisfallback_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// TestTokenFullMemoryEndsNoLocks: renewals, releases and offers need no memory.
func TestTokenFullMemoryEndsNoLocks(t *testing.T) {
	t.Parallel()
	const lease = 2 * short
	s := newPeers(t, pglock.WithLease(lease))
	kinds := map[string][]pglock.LockOption{"shared": {pglock.Shared()}, "exclusive": nil}
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
	testenv.WaitUntil(t, "the other waits", func() bool { return inLine(t, s.admin) == 1 })
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
	if next := <-waiting; next != nil {
		unlock(t, next)
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
