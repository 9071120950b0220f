package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// openSilent opens a Locker for a server that accepts connections and sends nothing.
func openSilent(t *testing.T) *pglock.Locker {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://user@" + testenv.SilentServer(t).String() + "/database?sslmode=disable")
	must.Succeed(t, err)
	l, err := pglock.NewWithConfig(config)
	must.Succeed(t, err)
	return l
}

// A server that sends nothing is unavailable, whatever ends the wait for it.
func TestFaultsASilentServerIsUnavailable(t *testing.T) {
	l := openSilent(t)
	key := pglock.NewKey("k")
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	_, byContext := l.Lock(ctx, key)
	if !errors.Is(byContext, enough) {
		t.Errorf("%v does not match the context's cause", byContext)
	}
	_, byBound := l.Lock(t.Context(), key, pglock.MaxWait(50*time.Millisecond))
	for _, err := range []error{byContext, byBound} {
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("%v: want ErrUnavailable alone", err)
		}
	}
	closeWithinAMinute(t, l)
}

// Close ends acquires that wait for a connection, and does not wait for them.
func TestFaultsCloseEndsAcquiresOnASilentServer(t *testing.T) {
	l := openSilent(t)
	failed := make(chan error, 2)
	go func() { _, err := l.Lock(context.Background(), pglock.NewKey("a")); failed <- err }()
	go func() { _, err := l.TryLock(context.Background(), pglock.NewKey("b")); failed <- err }()
	testenv.WaitUntil(t, "both acquire", func() bool { return l.Stats().Waiting == 2 })
	if err := l.Close(t.Context()); err != nil { // whose context does not end
		t.Error(err)
	}
	for range 2 {
		if err := <-failed; !errors.Is(err, pglock.ErrClosed) {
			t.Error(err)
		}
	}
}

// The error of a wait that its caller ended contains the caller's cause. If the server answers it is not
// ErrUnavailable.
func TestFaultsTheCallersOwnCauseIsNoSignOfTheServer(t *testing.T) {
	db := testenv.Database(t)
	l, _ := openCounted(t, db)
	must.Succeed(t, l.Ping(minuteContext(t)))
	keys, shutdown := faultKeys(8), errors.New("shutdown")
	ours := func(err error) bool {
		return err == nil || errors.Is(err, pglock.ErrNotAcquired) || errors.Is(err, context.Canceled)
	}
	stop := keepBusy(t, 32, []*pglock.Locker{l}, func(_ context.Context, l *pglock.Locker) {
		ctx, cancel := context.WithCancelCause(context.Background())
		end := time.AfterFunc(2*time.Millisecond, func() { cancel(shutdown) })
		defer end.Stop()
		lock, err := l.Lock(ctx, some(keys, 1)[0], pglock.MaxWait(3*time.Millisecond))
		if !ours(err) || errors.Is(err, pglock.ErrUnavailable) {
			t.Errorf("a wait that was given up: %v", err)
		}
		if err == nil {
			mustUnlock(t, lock)
		}
	})
	testenv.WaitUntil(t, "many have tried", func() bool { return l.Stats().Acquired >= 1000 || t.Failed() })
	stop()
	wantQuiet(t, db, l)
}

// A server that has fallen silent is unavailable. An unanswered statement ahead of the caller's is not contention.
func TestFaultsAServerThatFallsSilentIsUnavailable(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	link, config := newProxy(t, db)
	l, _ := openConfig(t, config, pglock.WithLease(30*time.Second))
	held := mustLock(t, l, pglock.NewKey("held"))
	link.Cut(true, true)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	_, sent := l.TryLock(ctx, pglock.NewKey("a"))
	if !errors.Is(sent, enough) {
		t.Errorf("%v does not match the context's cause", sent)
	}
	_, queued := l.Lock(t.Context(), pglock.NewKey("b"), pglock.MaxWait(50*time.Millisecond))
	for _, err := range []error{sent, queued} {
		if !errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrNotAcquired) {
			t.Errorf("%v: want ErrUnavailable alone", err)
		}
	}
	if err := held.Err(); err != nil {
		t.Errorf("the calls returned only when the session had ended, not soon after their contexts: %v", err)
	}
	link.Cut(false, false)
	mustUnlock(t, mustLock(t, openLocker(t, db), pglock.NewKey("a"))) // what came late was given back
	mustUnlock(t, held)
}
