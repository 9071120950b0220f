package redisfallback_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// short is a short lease, so that faults take little time.
const short = time.Second

// peers is a separate Redis with two Lockers, each with a separate client.
type peers struct {
	server       *redisserver.Server
	admin        *redis.Client
	first, other *pglock.Locker
	key          pglock.Key
}

func newPeers(t *testing.T, opts ...pglock.Option) *peers {
	t.Helper()
	server := testenv.NewRedis(t)
	locker := func() *pglock.Locker {
		return open(t, []redis.UniversalClient{newClient(t, server.URL())}, nil, opts...)
	}
	return &peers{
		server: server, admin: newClient(t, server.URL()), first: locker(), other: locker(), key: pglock.NewKey("k"),
	}
}

func lock(t *testing.T, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) *pglock.Lock {
	t.Helper()
	held, err := l.Lock(t.Context(), key, opts...)
	must.Succeed(t, err)
	return held
}

// lockLater is lock in a goroutine. It sends nil after an error.
func lockLater(t *testing.T, l *pglock.Locker, key pglock.Key, opts ...pglock.LockOption) <-chan *pglock.Lock {
	got := make(chan *pglock.Lock, 1)
	go func() {
		held, err := l.Lock(context.Background(), key, opts...)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	return got
}

// lockWhenAvailable is lock with a server that may not answer at first.
func lockWhenAvailable(t *testing.T, l *pglock.Locker, key pglock.Key) (held *pglock.Lock) {
	t.Helper()
	testenv.WaitUntil(t, "the server answers", func() bool {
		var err error
		held, err = l.Lock(t.Context(), key)
		if err != nil && !errors.Is(err, pglock.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return held
}

func unlock(t *testing.T, held *pglock.Lock) {
	t.Helper()
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// wantLost waits for the end of a lock, which must be a loss for the reason.
func wantLost(t *testing.T, held *pglock.Lock, reason pglock.LostReason) {
	t.Helper()
	testenv.WaitUntil(t, "the lock has ended", func() bool {
		select {
		case <-held.Done():
			return true
		default:
			return false
		}
	})
	if lost := (*pglock.LostError)(nil); !errors.As(held.Err(), &lost) || lost.Reason != reason {
		t.Errorf("the lock ended with %v, want a loss for the reason %q", held.Err(), reason)
	}
	if text := held.Err().Error(); strings.Contains(text, "session") {
		t.Errorf("Redis has no sessions, but the error is %q", text)
	} else if strings.Contains(text, "lock lost") {
		t.Errorf("the error says the loss twice: %q", text)
	}
	if err := held.Unlock(t.Context()); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("Unlock of the lost lock: %v", err)
	}
}

func TestFaultsALockThatTheServerForgetsIsToldAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*testing.T, *peers){
		"killed and restarted empty": func(t *testing.T, s *peers) {
			must.Succeed(t, s.server.Kill())
			must.Succeed(t, s.server.Up(t.Context()))
		},
		"FLUSHALL":           func(t *testing.T, s *peers) { testenv.AskRedis(t, s.server, "FLUSHALL") },
		"the key is deleted": func(t *testing.T, s *peers) { testenv.AskRedis(t, s.server, "DEL", "pglock:k") },
		"the key is overwritten": func(t *testing.T, s *peers) {
			testenv.AskRedis(t, s.server, "SET", "pglock:k", "other", "PX", "1500")
		},
	} {
		for mode, opts := range map[string][]pglock.LockOption{"exclusive": nil, "shared": {pglock.Shared()}} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				s := newPeers(t, pglock.WithLease(short))
				held := lock(t, s.first, s.key, opts...)
				number, fenceErr := held.Fence(t.Context())
				forget(t, s)
				wantLost(t, held, pglock.LostGone)
				next := lock(t, s.other, s.key)
				if after, err := next.Fence(t.Context()); err != nil || fenceErr == nil && after <= number {
					t.Errorf("after the loss Fence returned %d, %v; it had been %d", after, err, number)
				}
				unlock(t, next)
			})
		}
	}
}

func TestFaultsALockEndsBeforeAnotherIsGrantedWhenTheServerIsFrozen(t *testing.T) {
	t.Parallel()
	s := newPeers(t, pglock.WithLease(short))
	held := lock(t, s.first, s.key)
	must.Succeed(t, s.server.Pause())
	wantLost(t, held, pglock.LostLease)
	must.Succeed(t, s.server.Resume())
	unlock(t, lockWhenAvailable(t, s.other, s.key))
}

func TestFaultsALockSurvivesAPauseShorterThanItsLease(t *testing.T) {
	s := newPeers(t, pglock.WithLease(10*time.Second))
	held := lock(t, s.first, s.key)
	testenv.AskRedis(t, s.server, "CLIENT", "PAUSE", "500")
	if err := held.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	unlock(t, held)
}

func TestFaultsALockEndsBeforeAnotherIsGrantedWhenItsNetworkIsABlackHole(t *testing.T) {
	t.Parallel()
	s := newPeers(t, pglock.WithLease(short))
	link, address := testenv.NewProxy(t, s.server.Addr())
	cut := open(t, []redis.UniversalClient{newClient(t, "redis://"+address.String())}, nil, pglock.WithLease(short))
	held := lock(t, cut, s.key)
	link.Cut(true, true)
	next := lock(t, s.other, s.key)
	if held.Err() == nil {
		t.Error("two locks of one key are held at the same time")
	}
	wantLost(t, held, pglock.LostLease)
	if _, err := cut.TryLock(t.Context(), pglock.NewKey("else")); !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("TryLock into a black hole: %v", err)
	}
	unlock(t, next)
}

func TestFaultsAServerThatIsNotThereIsUnavailableAndNotContended(t *testing.T) {
	t.Parallel()
	s := newPeers(t)
	held := lock(t, s.first, s.key)
	waiting := make(chan error, 1)
	go func() {
		_, err := s.other.Lock(context.Background(), s.key)
		waiting <- err
	}()
	testenv.WaitUntil(t, "the other waits", func() bool { return s.other.Stats().Waiting == 1 })
	must.Succeed(t, s.server.Kill())
	for name, err := range map[string]error{
		"a waiter": <-waiting,
		"TryLock":  func() error { _, err := s.other.TryLock(t.Context(), s.key); return err }(),
		"Lock":     func() error { _, err := s.other.Lock(t.Context(), s.key); return err }(),
		"Holders":  func() error { _, err := s.other.Holders(t.Context(), s.key); return err }(),
		"Verify":   held.Verify(t.Context()),
		"Ping":     s.other.Ping(t.Context()),
	} {
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Succeed(t, s.server.Up(t.Context()))
	unlock(t, lock(t, s.other, s.key)) // it starts empty
	if err := held.Verify(t.Context()); !errors.Is(err, pglock.ErrLost) {
		t.Errorf("Verify of what the server forgot: %v", err)
	}
	wantLost(t, held, pglock.LostGone)
}

func TestFaultsFlushedScriptsAreSentAgain(t *testing.T) {
	s := newPeers(t)
	flush := func() { testenv.AskRedis(t, s.server, "SCRIPT", "FLUSH") }
	for _, opts := range [][]pglock.LockOption{nil, {pglock.Shared()}} {
		held := lock(t, s.first, s.key, opts...)
		flush()
		if err := held.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		flush()
		if _, err := held.Fence(t.Context()); err != nil {
			t.Error(err)
		}
		flush()
		if _, err := s.other.TryLock(t.Context(), s.key); !errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("TryLock of a held key: %v", err)
		}
		flush()
		unlock(t, held)
	}
}

// TestFaultsASubscriptionThatWasRefusedIsMadeAnew: the user may not subscribe for some time. A Locker without a
// subscription counts as dead, so it would not be served while others wait.
func TestFaultsASubscriptionThatWasRefusedIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := newPeers(t, pglock.WithLease(2*short))
	held := lock(t, s.first, s.key)
	got := lockLater(t, s.other, s.key)
	listens := func() bool {
		channels, err := s.admin.PubSubChannels(t.Context(), "pglock:wake:*").Result()
		return err == nil && len(channels) == 1
	}
	testenv.WaitUntil(t, "the waiter has subscribed", listens)
	testenv.AskRedis(t, s.server, "ACL", "SETUSER", "default", "resetchannels") // ends subscriptions
	testenv.WaitUntil(t, "it has tried again", func() bool {
		return strings.Contains(testenv.AskRedis(t, s.server, "INFO", "errorstats"), "NOPERM")
	})
	testenv.AskRedis(t, s.server, "ACL", "SETUSER", "default", "allchannels")
	testenv.WaitUntil(t, "it has subscribed again", listens)
	unlock(t, held)
	if next := <-got; next != nil {
		unlock(t, next)
	}
}

// TestFaultsAServerThatCannotBeDialledIsUnavailable: a firewall drops what is sent to the server, so dialling gets no answer,
// here for as long as the test needs.
func TestFaultsAServerThatCannotBeDialledIsUnavailable(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	client := closing(t, redis.NewClient(&redis.Options{
		Addr: "192.0.2.1:6379", // an address for documentation (RFC 5737)
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			<-hang
			return nil, errors.New("dialling failed")
		},
	}))
	t.Cleanup(func() { close(hang) })
	l := open(t, []redis.UniversalClient{client}, nodeTimeout)
	for name, call := range map[string]func(context.Context, pglock.Key, ...pglock.LockOption) (*pglock.Lock, error){
		"Lock": l.Lock, "TryLock": l.TryLock,
	} {
		_, err := call(t.Context(), pglock.NewKey("k"))
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
