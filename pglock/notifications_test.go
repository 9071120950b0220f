package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// blockingLog is a log handler that does not return from the report of a lost lock until it is released.
type blockingLog struct {
	slog.Handler
	released chan struct{}
}

func (blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (h blockingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "lock lost" {
		<-h.released
	}
	return nil
}

// 500 locks are lost at once, and all of them have ended while the first one's notification is still running.
func TestNotificationsLostLocksDoNotWaitForObserversAndLogs(t *testing.T) {
	for _, slow := range []string{"Observer", "log"} {
		t.Run(slow, func(t *testing.T) {
			db := testenv.Database(t)
			released := make(chan struct{})
			var lost atomic.Int64
			observer := func(_ context.Context, e pglock.Event) {
				if e.Type == pglock.EventLost {
					if slow == "Observer" {
						<-released
					}
					lost.Add(1)
				}
			}
			opts := []pglock.Option{pglock.WithObserver(observer)}
			if slow == "log" {
				opts = append(opts, pglock.WithLogger(slog.New(blockingLog{slog.DiscardHandler, released})))
			}
			l := openLocker(t, db, opts...)
			var locks []*pglock.Lock
			for _, key := range faultKeys(500) {
				locks = append(locks, mustLock(t, l, key))
			}
			terminateHolders(t, db.Connect(t))
			for _, lock := range locks {
				select {
				case <-lock.Done():
				case <-time.After(time.Minute):
					close(released)
					t.Fatal("a lock has not ended while a notification of another is running")
				}
			}
			if n := lost.Load(); n != 0 {
				t.Errorf("%d losses were reported by then", n)
			}
			close(released)
			testenv.WaitUntil(t, "all losses are reported", func() bool { return lost.Load() == 500 })
			wantLost(t, locks[499].Err(), pglock.LostSession)
		})
	}
}

// silentBackend is a backend whose server grants free locks and then answers nothing until it is closed.
type silentBackend struct {
	closed   chan struct{}
	deadline driver.Instant
	check    error
	releases atomic.Int64
	acquires atomic.Int64
	free     chan struct{} // closed: releases are answered

	mu   sync.Mutex
	held map[driver.KeyID]bool
}

func newSilentBackend() *silentBackend {
	return &silentBackend{closed: make(chan struct{}), free: make(chan struct{}), deadline: driver.Never, held: map[driver.KeyID]bool{}}
}

type silentGrant struct {
	*silentBackend
	key driver.KeyID
}

func (g silentGrant) Deadline() driver.Instant { return g.deadline }

func (*silentBackend) Start(driver.Config) error  { return nil }
func (*silentBackend) Ping(context.Context) error { return nil }

func (d *silentBackend) Acquire(_ context.Context, r driver.Request) (driver.Grant, error) {
	d.acquires.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held[r.Key.KeyID] {
		return nil, errors.New("the session would hold a key twice")
	}
	d.held[r.Key.KeyID] = true
	return silentGrant{d, r.Key.KeyID}, nil
}

func (d *silentBackend) Release(_ context.Context, held driver.Grant) error {
	d.releases.Add(1)
	select {
	case <-d.free:
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.held, held.(silentGrant).key)
		return nil
	case <-d.closed:
		return driver.ErrLost
	case <-time.After(driver.ReleaseTimeout):
		return driver.ErrUnavailable
	}
}

func (d *silentBackend) Check(context.Context, driver.Grant) error { return d.check }

func (*silentBackend) Holders(context.Context, driver.Key) ([]driver.Holder, error) { return nil, nil }

func (d *silentBackend) Close(context.Context) error {
	close(d.closed)
	return nil
}

// If a lock loses one of its keys the others are released, and a lock whose lease is over is released too. Only then
// are the keys requested again.
func TestNotificationsEndedLocksAreGivenBackBeforeTheirKeysAreAskedForAgain(t *testing.T) {
	for name, end := range map[string]func(*silentBackend, *pglock.Lock) error{
		"Verify": func(d *silentBackend, lock *pglock.Lock) error {
			d.check = fmt.Errorf("%w: one of two keys is held", driver.ErrLost)
			return lock.Verify(context.Background())
		},
		"lease": func(d *silentBackend, lock *pglock.Lock) error {
			d.deadline = driver.Now()
			return lock.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newSilentBackend()
				l, err := pglock.NewWithBackend(d)
				must.Succeed(t, err)
				keys := []pglock.Key{pglock.NewKey("a"), pglock.NewKey("b")}
				lock, err := l.LockAll(t.Context(), keys)
				must.Succeed(t, err)
				if err := end(d, lock); !errors.Is(err, pglock.ErrLost) {
					t.Errorf("%v", err)
				}
				d.deadline = driver.Never
				synctest.Wait()
				for _, key := range keys {
					if _, err := l.TryLock(t.Context(), key); !errors.Is(err, pglock.ErrNotAcquired) {
						t.Errorf("TryLock of a key that is being given back: %v", err)
					}
				}
				if d.acquires.Load() != 2 || d.releases.Load() != 2 || l.Stats().Held != 0 || l.Stats().Lost != 1 {
					t.Errorf("%d acquires, %d releases, %+v", d.acquires.Load(), d.releases.Load(), l.Stats())
				}
				close(d.free)
				again, err := l.LockAll(t.Context(), keys)
				must.Succeed(t, err)
				mustUnlock(t, again)
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
