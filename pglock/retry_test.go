package pglock_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// One caller waits in the queue of a server that is restarted, and another calls while it is down. Both get their locks
// when it is back.
func TestRetryUnavailableRidesOutARestart(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	l, other := openLocker(t, db), openLocker(t, db)
	key, late := pglock.NewKey("k"), pglock.NewKey("late")
	holder := mustLock(t, other, key)
	queued := lockLater(t, l, key, pglock.RetryUnavailable(time.Hour))
	db.WaitForWaiters(t, 1)
	must.Succeed(t, server.Down(t.Context(), pgserver.Immediate))
	awaitDone(t, holder.Done(), "the end of the holder's lock")
	asked := lockLater(t, l, late, pglock.RetryUnavailable(time.Hour))
	testenv.WaitUntil(t, "both wait", func() bool { return l.Stats().Waiting == 2 })
	if _, err := l.Lock(t.Context(), late); !errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("without RetryUnavailable the error is %v", err)
	}
	must.Succeed(t, server.Up(t.Context()))
	for _, granted := range []<-chan *pglock.Lock{queued, asked} {
		lock, ok := <-granted
		if !ok {
			t.Fatal("no lock was granted")
		}
		if err := lock.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wantQuiet(t, db, l, other)
}

// openRefused opens a Locker for an address at which nothing listens.
func openRefused(t *testing.T) *pglock.Locker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	address := listener.Addr().String()
	must.Succeed(t, listener.Close())
	return openAt(t, address)
}

func openAt(t *testing.T, address string) *pglock.Locker {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://user@" + address + "/database?sslmode=disable")
	must.Succeed(t, err)
	l, err := pglock.NewWithConfig(config)
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	return l
}

func TestRetryUnavailableEnds(t *testing.T) {
	t.Parallel()
	l, key := openRefused(t), pglock.NewKey("k")
	// Long enough that the first connection has been refused before.
	const enough = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	_, byContext := l.Lock(ctx, key, pglock.RetryUnavailable(time.Hour))
	if !errors.Is(byContext, context.DeadlineExceeded) {
		t.Errorf("%v does not match the context's error", byContext)
	}
	_, byBound := l.Lock(t.Context(), key, pglock.RetryUnavailable(time.Hour), pglock.MaxWait(enough))
	_, byItself := l.Lock(t.Context(), key, pglock.RetryUnavailable(200*time.Millisecond))
	for _, err := range []error{byContext, byBound, byItself} {
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("%v: want ErrUnavailable and not ErrNotAcquired", err)
		}
	}
	if text := `pglock: lock "k": an outage for longer than RetryUnavailable allows (200ms): lock server unavailable: `; !strings.HasPrefix(
		byItself.Error(), text) || strings.Count(byItself.Error(), "unavailable") != 1 {
		t.Errorf("%q does not begin with %q, or repeats it", byItself, text)
	}
	for _, err := range []error{byBound, byItself} {
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v matches the error of a context that has not ended", err)
		}
	}
	closed := make(chan error, 1)
	go func() { _, err := l.Lock(t.Context(), key, pglock.RetryUnavailable(time.Hour)); closed <- err }()
	testenv.WaitUntil(t, "it waits", func() bool { return l.Stats().Waiting == 1 })
	closeWithinAMinute(t, l)
	if err := <-closed; !errors.Is(err, pglock.ErrClosed) || errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("after Close the error is %v", err)
	}
	if stats := l.Stats(); stats.Waiting != 0 {
		t.Errorf("in the end %+v", stats)
	}
}

func TestRetryUnavailableGivesUpOnWhatRetriesCannotMend(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t)
	config.ConnConfig.Database = "pglock_no_such_database"
	l, err := pglock.NewWithConfig(config)
	must.Succeed(t, err)
	t.Cleanup(func() { closeWithinAMinute(t, l) })
	_, err = l.Lock(minuteContext(t), pglock.NewKey("k"), pglock.RetryUnavailable(time.Hour))
	if code := sqlstate.Of(err); code != "3D000" || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a database the error is %v", err)
	}
}

// scripted is a server that answers requests as a function says.
type scripted struct {
	driver.Backend
	answer func(ctx context.Context, wait bool) error
}

func (*scripted) Start(driver.Config) error                   { return nil }
func (*scripted) Close(context.Context) error                 { return nil }
func (*scripted) Deadline() driver.Instant                    { return driver.Never }
func (*scripted) Release(context.Context, driver.Grant) error { return nil }

func (*scripted) Holders(context.Context, driver.Key) ([]driver.Holder, error) { return nil, nil }

func (s *scripted) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.answer(ctx, r.Wait); err != nil {
		return nil, err
	}
	return s, nil
}

// noAnswer is that of a server which is silent: calls give up after a second.
func noAnswer(context.Context, bool) error {
	time.Sleep(time.Second)
	return driver.ErrUnavailable
}

// Calls for one key wait for each other in the queue of the process. That is no answer of the server, so their outage goes on.
func TestRetryUnavailableEndsForEachOfManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := pglock.NewWithBackend(&scripted{answer: noAnswer}, pglock.WithLogger(slog.New(slog.DiscardHandler)))
		must.Succeed(t, err)
		const calls, most, bound = 4, 10 * time.Second, 25 * time.Second
		ended := make(chan error)
		for i := range calls {
			opts := []pglock.LockOption{pglock.RetryUnavailable(most)}
			if i == 0 {
				opts = []pglock.LockOption{pglock.RetryUnavailable(time.Hour), pglock.MaxWait(bound)}
			}
			go func() { _, err := l.Lock(minuteContext(t), pglock.NewKey("k"), opts...); ended <- err }()
		}
		begin := time.Now()
		for range calls {
			err := <-ended
			if late := time.Since(begin); late > bound+calls*time.Second {
				t.Errorf("a call has ended after %v", late)
			}
			if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
				t.Errorf("%v: want ErrUnavailable and not ErrNotAcquired", err)
			}
		}
		must.Succeed(t, l.Close(t.Context()))
	})
}

// Between two outages the server says that another process holds the key. It says so to one of the calls, and the other waits
// behind that one.
func TestRetryUnavailableCountsEachOutageForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l, err := pglock.NewWithBackend(&scripted{answer: func(ctx context.Context, wait bool) error {
			switch now := time.Since(begin); {
			case now < 5*time.Second, time.Hour < now && now < time.Hour+5*time.Second:
				return noAnswer(ctx, wait)
			case now > time.Hour:
				return nil
			case wait:
				time.Sleep(time.Hour - now)
				return noAnswer(ctx, wait)
			}
			return driver.ErrNotAcquired
		}}, pglock.WithLogger(slog.New(slog.DiscardHandler)))
		must.Succeed(t, err)
		ended := make(chan error)
		for range 2 {
			go func() {
				lock, err := l.Lock(t.Context(), pglock.NewKey("k"), pglock.RetryUnavailable(20*time.Second))
				if err == nil {
					err = lock.Unlock(t.Context())
				}
				ended <- err
			}()
		}
		must.Succeed(t, errors.Join(<-ended, <-ended, l.Close(t.Context())))
	})
}

func TestRetryUnavailableReportsTheTokenOfItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, asked := map[pglock.EventType]string{}, 0
		l, err := pglock.NewWithBackend(&scripted{answer: func(ctx context.Context, wait bool) error {
			if asked++; asked == 3 {
				return nil
			}
			return noAnswer(ctx, wait)
		}}, pglock.WithObserver(func(_ context.Context, e pglock.Event) { tokens[e.Type] = e.Token }))
		must.Succeed(t, err)
		lock := mustLock(t, l, pglock.NewKey("k"), pglock.RetryUnavailable(time.Hour))
		mustUnlock(t, lock)
		if tokens[pglock.EventAcquired] != lock.Token() || tokens[pglock.EventReleased] != lock.Token() {
			t.Errorf("the lock has token %q, and was reported with %v", lock.Token(), tokens)
		}
		must.Succeed(t, l.Close(t.Context()))
	})
}
