package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestCloseReturnsByItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		within time.Duration
		held   time.Duration // how long the holder has until its lock ends
	}{
		"a short one": {after(time.Second), time.Second, 750 * time.Millisecond},
		"a long one":  {after(time.Minute), time.Minute, 57 * time.Second},
		"passed":      {after(-time.Second), 3 * time.Second, 0},
		"a cancel":    {cancelledAfter(time.Second), 4 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := locktest.NewMemory()
				must.Succeed(t, err)
				lock := mustLock(t, l, pglock.NewKey("k")) // never unlocked
				start := time.Now()
				ended := make(chan time.Duration, 1)
				go func() { <-lock.Done(); ended <- time.Since(start) }()
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				err = l.Close(ctx)
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
					t.Errorf("Close returned %v", err)
				}
				if took := time.Since(start); took > c.within {
					t.Errorf("Close took %v", took)
				}
				if held := <-ended; held != c.held {
					t.Errorf("the lock ended after %v, want %v", held, c.held)
				}
			})
		})
	}
}

func after(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func cancelledAfter(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// Jobs learn that the Locker closes while they hold their locks, and Close waits for them.
func TestCloseIsKnownToJobsBeforeTheirLocksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := locktest.NewMemory()
		must.Succeed(t, err)
		result := make(chan error, 1)
		go func() {
			result <- l.Do(t.Context(), pglock.NewKey("k"), func(ctx context.Context, lock *pglock.Lock) error {
				<-l.Closing()
				time.Sleep(time.Second) // the rest of the job
				return lock.Err()
			})
		}()
		synctest.Wait()
		select {
		case <-l.Closing():
			t.Error("Closing was closed before Close")
		default:
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-result; err != nil {
			t.Errorf("the job ended with %v", err)
		}
	})
}

// A server that has fallen silent does not keep Close beyond its deadline.
func TestCloseReturnsByItsDeadlineBesideASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := pglock.NewWithBackend(newSilentBackend())
		must.Succeed(t, err)
		for _, key := range faultKeys(100) {
			mustLock(t, l, key)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v", err)
		}
		if took := time.Since(start); took > 2*time.Second { // the bubble's clock; a release is given up after five
			t.Errorf("Close took %v", took)
		}
	})
}

// A Close that has no deadline waits for ten seconds. After one the log names what is held; the error names the ten oldest.
func TestCloseWithoutADeadlineSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLogBook()
		l, err := locktest.NewMemory(log.option())
		must.Succeed(t, err)
		for i := range 20 {
			mustLock(t, l, pglock.Keyf("nightly%02d", i))
			time.Sleep(time.Second)
		}
		start, result := time.Now(), make(chan error)
		go func() { result <- l.Close(context.Background()) }()
		time.Sleep(2 * time.Second)
		lines := log.lines("close waits for locks that are still held", "locks=20", "since 2000-01-01T00:00:00Z", "nightly", "and 10 more")
		if len(lines) != 1 {
			t.Errorf("the log says %q", log.lines(""))
		}
		err = <-result
		if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "nightly0") != 10 || !strings.Contains(err.Error(), "and 10 more") {
			t.Errorf("Close returned %v", err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// Under the context of a lock Close would wait for its own caller.
func TestCloseIsRefusedInsideDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := locktest.NewMemory()
		must.Succeed(t, err)
		err = l.Do(t.Context(), pglock.NewKey("k"), func(ctx context.Context, lock *pglock.Lock) error { return l.Close(ctx) })
		if !errors.Is(err, pglock.ErrSelfDeadlock) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("Close returned %v", err)
		}
		must.Succeed(t, l.Close(t.Context()))
	})
}
