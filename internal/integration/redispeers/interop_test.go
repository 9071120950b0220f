package redispeers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// open returns a Locker that uses bare names.
func open(t *testing.T, server *redisserver.Server, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	b, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithKeyPrefix(""))
	must.Succeed(t, err)
	l, err := pglock.NewWithBackend(b, opts...)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := errors.Join(l.Close(context.Background()), client.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestOurLocksExcludeOtherClients(t *testing.T) {
	server := testenv.NewRedis(t)
	l := open(t, server)
	for kind, p := range peersOf(t, server) {
		for mode, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
			t.Run(kind+", "+mode, func(t *testing.T) {
				held, err := l.Lock(t.Context(), pglock.NewKey("x"), opts...)
				must.Succeed(t, err)
				if got, err := p.try("x"); got || err != nil {
					t.Errorf("it got the lock as well: %v, %v", got, err)
				}
				got := make(chan error, 1)
				go func() { got <- p.wait("x") }()
				if err := held.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-got; err != nil {
					t.Errorf("after our Unlock: %v", err)
				}
				if err := p.release("x"); err != nil {
					t.Errorf("its own release: %v", err)
				}
			})
		}
	}
}

func TestLocksOfOtherClientsExcludeOurs(t *testing.T) {
	server := testenv.NewRedis(t)
	l := open(t, server, pglock.WithLease(time.Hour)) // nothing that it leaves behind ends by itself
	for kind, p := range peersOf(t, server) {
		for mode, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
			t.Run(kind+", "+mode, func(t *testing.T) {
				if got, err := p.try("x"); !got || err != nil {
					t.Fatalf("it did not get a free lock: %v, %v", got, err)
				}
				if _, err := l.TryLock(t.Context(), pglock.NewKey("x"), opts...); !errors.Is(err, pglock.ErrNotAcquired) {
					t.Errorf("TryLock: %v", err)
				}
				if holders, err := l.Holders(t.Context(), pglock.NewKey("x")); err != nil || len(holders) != 1 {
					t.Errorf("Holders: %v, %v", holders, err)
				}
				got := make(chan *pglock.Lock, 1)
				go func() {
					held, err := l.Lock(t.Context(), pglock.NewKey("x"), append(opts, pglock.MaxWait(time.Minute))...)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
				testenv.WaitUntil(t, "we wait", func() bool { return l.Stats().Waiting == 1 })
				if err := p.release("x"); err != nil {
					t.Error(err)
				}
				if held := <-got; held != nil {
					if err := held.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestRedisPyHandlesOurLockAsItsOwn: an owner needs only the token.
func TestRedisPyHandlesOurLockAsItsOwn(t *testing.T) {
	server := testenv.NewRedis(t)
	l, p := open(t, server, pglock.WithLease(time.Second)), newPython(t, server)
	held, err := l.Lock(t.Context(), pglock.NewKey("x"))
	must.Succeed(t, err)
	for _, command := range [][]string{
		{"locked", "x"}, {"adopt", "x", held.Token()}, {"owned", "x"}, {"extend", "x"}, {"reacquire", "x"}, {"release", "x"},
	} {
		if ok, err := p.ask(command...); !ok || err != nil {
			t.Errorf("%v: %v, %v", command, ok, err)
		}
	}
	<-held.Done() // notified at the next renewal
	if !errors.Is(held.Err(), pglock.ErrLost) {
		t.Errorf("after its release by redis-py our lock ended with %v", held.Err())
	}
}
