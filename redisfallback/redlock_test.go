package redisfallback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// The ways in which a node can be unreachable.
var ways = map[string]func(*testing.T, *redisserver.Server){
	"gone":    func(t *testing.T, s *redisserver.Server) { must.Succeed(t, s.Kill()) },
	"hanging": func(t *testing.T, s *redisserver.Server) { must.Succeed(t, s.Pause()) },
}

// nodeTimeout is short, so that hanging nodes delay a test only a little, but long enough for nodes on a busy machine.
var nodeTimeout = []redisfallback.Option{redisfallback.WithNodeTimeout(time.Second)}

func TestRedlockDoesWithoutAMinority(t *testing.T) {
	t.Parallel()
	for way, away := range ways {
		for _, missing := range []int{1, 2} {
			t.Run(strings.Repeat("x", missing)+" "+way, func(t *testing.T) {
				t.Parallel()
				nodes := servers(t, 5)
				clients := newClients(t, nodes)
				first, other := open(t, clients, nodeTimeout, pglock.WithLease(5*time.Second)), open(t, clients, nodeTimeout)
				key := pglock.NewKey("k")
				early := lock(t, first, key)
				for _, node := range nodes[:missing] {
					away(t, node)
				}
				if err := early.Verify(t.Context()); err != nil {
					t.Errorf("Verify of an earlier lock: %v", err)
				}
				if _, err := other.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrNotAcquired) {
					t.Errorf("TryLock of a held key: %v", err)
				}
				unlock(t, early)
				for range 3 {
					held := lock(t, first, key)
					if _, err := other.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrNotAcquired) {
						t.Errorf("TryLock of a held key: %v", err)
					}
					if holders, err := other.Holders(t.Context(), key); err != nil || len(holders) != 1 {
						t.Errorf("Holders: %v, %v", holders, err)
					}
					next := make(chan *pglock.Lock, 1)
					go func() {
						waited, err := other.Lock(t.Context(), key)
						if err != nil {
							t.Error(err)
						}
						next <- waited
					}()
					testenv.WaitUntil(t, "the other waits", func() bool { return other.Stats().Waiting == 1 })
					unlock(t, held)
					if waited := <-next; waited != nil {
						unlock(t, waited)
					}
				}
				all, err := first.LockAll(t.Context(), []pglock.Key{pglock.NewKey("a"), pglock.NewKey("b")})
				must.Succeed(t, err)
				unlock(t, all)
			})
		}
	}
}

func TestRedlockWithoutAMajorityIsUnavailableAndNamesTheNodes(t *testing.T) {
	t.Parallel()
	for way, away := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			nodes := servers(t, 5)
			clients := newClients(t, nodes)
			l := open(t, clients, nodeTimeout, pglock.WithLease(short))
			held := lock(t, l, pglock.NewKey("k"))
			for _, node := range nodes[:3] {
				away(t, node)
			}
			_, err := l.Lock(t.Context(), pglock.NewKey("new"))
			if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
				t.Fatalf("Lock without a majority: %v", err)
			}
			for _, node := range nodes[:3] {
				if !strings.Contains(err.Error(), node.Addr()) {
					t.Errorf("the error does not name %s: %v", node.Addr(), err)
				}
			}
			if err := l.Ping(t.Context()); !errors.Is(err, pglock.ErrUnavailable) {
				t.Errorf("Ping without a majority: %v", err)
			}
			wantLost(t, held, pglock.LostLease)
		})
	}
}

func TestRedlockIsToldWhenAMajorityForgetsALock(t *testing.T) {
	nodes := servers(t, 5)
	clients := newClients(t, nodes)
	first, other := open(t, clients, nodeTimeout, pglock.WithLease(short)), open(t, clients, nodeTimeout, pglock.WithLease(short))
	key := pglock.NewKey("k")
	held := lockEverywhere(t, first, key, nodes)
	for _, node := range nodes[:2] {
		testenv.AskRedis(t, node, "FLUSHALL")
	}
	if err := held.Verify(t.Context()); err != nil {
		t.Errorf("Verify after a minority has forgotten the lock: %v", err)
	}
	testenv.AskRedis(t, nodes[2], "FLUSHALL")
	wantLost(t, held, pglock.LostGone)
	unlock(t, lock(t, other, key))
}

// One node never had the lock, and another one that has it does not answer: it is held by a majority all the same.
func TestRedlockASilentNodeMayHaveTheLock(t *testing.T) {
	t.Parallel()
	nodes := servers(t, 3)
	l := open(t, newClients(t, nodes), nodeTimeout, pglock.WithLease(5*time.Second))
	held := lockEverywhere(t, l, pglock.NewKey("k"), nodes)
	testenv.AskRedis(t, nodes[2], "FLUSHALL")
	must.Succeed(t, nodes[1].Kill())
	if err := held.Verify(t.Context()); !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrLost) {
		t.Errorf("Verify: %v", err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

func TestRedlockHasNoFence(t *testing.T) {
	l := open(t, newClients(t, servers(t, 3)), nil)
	held := lock(t, l, pglock.NewKey("k"))
	if _, err := held.Fence(t.Context()); !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("Fence: %v", err)
	}
	unlock(t, held)
}

// TestRedlockAHangingMinorityIsNotWaitedFor: waiting for it would take an hour.
func TestRedlockAHangingMinorityIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	nodes := servers(t, 5)
	locker := func() *pglock.Locker {
		var clients []redis.UniversalClient
		for _, node := range nodes {
			clients = append(clients, closing(t, redis.NewClient(&redis.Options{Addr: node.Addr(), ReadTimeout: -1})))
		}
		return open(t, clients, []redisfallback.Option{redisfallback.WithNodeTimeout(time.Hour)})
	}
	first, other := locker(), locker()
	unlock(t, lock(t, first, pglock.NewKey("k"))) // connects
	for _, node := range nodes[:2] {
		must.Succeed(t, node.Pause())
	}
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		held := lock(t, first, pglock.NewKey("k"), opts...)
		if err := held.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := other.TryLock(t.Context(), pglock.NewKey("k")); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("TryLock of a held key: %v", err)
		}
		unlock(t, held)
	}
	for _, node := range nodes[:2] {
		must.Succeed(t, node.Resume()) // so that Close need not wait for them
	}
}
