package redispeers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// open returns a Locker that uses bare names.
func open(t *testing.T, server *testenv.RedisServer, opts ...pglock.Option) *pglock.Locker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	b, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithKeyPrefix(""))
	if err != nil {
		t.Fatal(err)
	}
	l, err := pglock.NewWithBackend(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
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
				if err != nil {
					t.Fatal(err)
				}
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
	l := open(t, server)
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
					held, err := l.Lock(t.Context(), pglock.NewKey("x"), opts...)
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
	if err != nil {
		t.Fatal(err)
	}
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

// TestWhatRedisPyCanDoIsHereToo goes through the table in the package's documentation: redis-py and then a Locker do
// the same to the same key.
func TestWhatRedisPyCanDoIsHereToo(t *testing.T) {
	server := testenv.NewRedis(t)
	l, p := open(t, server, pglock.WithLease(time.Second)), newPython(t, server)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	}()
	key := pglock.NewKey("x")
	says := func(want bool, command ...string) {
		t.Helper()
		if got, err := p.ask(command...); got != want || err != nil {
			t.Errorf("redis-py's %v: %v, %v", command, got, err)
		}
	}
	lock := func(opts ...pglock.LockOption) *pglock.Lock {
		t.Helper()
		held, err := l.Lock(t.Context(), key, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	fails := func(want, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	lives := func(atLeast time.Duration) func() bool {
		return func() bool { return admin.PTTL(t.Context(), "x").Val() > atLeast }
	}
	holder := func() string {
		holders, err := l.Holders(t.Context(), key)
		if err != nil || len(holders) > 1 {
			t.Errorf("Holders: %v, %v", holders, err)
		}
		if len(holders) == 0 {
			return ""
		}
		return holders[0].Token
	}

	// acquire(token=…), locked(), owned(), release()
	says(true, "try_as", "x", "mine")
	says(true, "locked", "x")
	if holder() != "mine" {
		t.Errorf("the holder is %q", holder())
	}
	says(true, "owned", "x")
	says(true, "release", "x")
	held := lock(pglock.WithToken("mine"))
	if holder() != "mine" {
		t.Errorf("the holder is %q", holder())
	}
	fails(nil, held.Verify(t.Context()))

	// acquire(blocking=False), acquire(blocking_timeout=…)
	says(false, "try", "x")
	says(false, "wait_for", "x", "0.1")
	fails(nil, held.Unlock(t.Context()))
	says(true, "wait_for", "x", "10")
	_, err := l.TryLock(t.Context(), key)
	fails(pglock.ErrNotAcquired, err)
	_, err = l.Lock(t.Context(), key, pglock.MaxWait(100*time.Millisecond))
	fails(pglock.ErrNotAcquired, err)

	// extend(t), extend(t, replace_ttl=True), reacquire()
	says(true, "extend_by", "x")
	testenv.WaitUntil(t, "its time to live is longer by 60 s", lives(60*time.Second))
	says(true, "extend", "x")
	testenv.WaitUntil(t, "its time to live is 60 s", lives(50*time.Second))
	says(true, "reacquire", "x")
	says(true, "release", "x")
	held = lock(pglock.MaxHold(time.Hour))
	admin.PExpire(t.Context(), "x", 700*time.Millisecond)
	testenv.WaitUntil(t, "the watchdog has set the time to live again", lives(750*time.Millisecond))
	left, _ := held.MaxHoldLeft()
	fails(nil, held.Extend(left+time.Hour))
	if left, _ := held.MaxHoldLeft(); left <= time.Hour {
		t.Errorf("after an hour more, of an hour %v are left", left)
	}
	fails(nil, held.Extend(50*time.Millisecond))
	<-held.Done()
	fails(pglock.ErrLost, held.Err())

	// The owner is a thread, or the value of the lock.
	testenv.WaitUntil(t, "the lock is free", func() bool { return holder() == "" })
	says(true, "passed_on", "x")
	held = lock()
	released := make(chan error)
	go func() { released <- held.Unlock(t.Context()) }()
	fails(nil, <-released)

	// A lock that is lost, and one that is not held any more.
	says(true, "try", "x")
	admin.Del(t.Context(), "x")
	says(false, "owned", "x")
	if _, err := p.ask("release", "x"); err == nil {
		t.Error("redis-py released a lock that it has lost")
	}
	held = lock()
	admin.Del(t.Context(), "x")
	fails(pglock.ErrLost, held.Verify(t.Context()))
	fails(pglock.ErrLost, held.Unlock(t.Context()))
	held = lock()
	fails(nil, held.Unlock(t.Context()))
	fails(pglock.ErrUnlocked, held.Unlock(t.Context()))
}
