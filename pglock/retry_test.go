package pglock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
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
